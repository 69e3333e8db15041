use maud::{Markup, html};
use time::OffsetDateTime;

use super::text::between;
use super::turn::Place;
use crate::page::duration;
use crate::trajectory::{Entry, Trajectory, Turn, milliseconds};

/// Pixels of one turn, and of the scale above.
const ROW: usize = 14;
const SCALE: usize = 20;

/// When the model and the tools were at work, a line for each turn. Times are shares of the width, so that the drawing
/// takes any.
pub(super) fn waterfall(trajectory: &Trajectory, entries: &[&Entry], place: &Place<'_>) -> Markup {
    let turns: Vec<&Turn> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Turn(turn) => Some(turn.as_ref()),
            Entry::Note(_) => None,
        })
        .collect();
    let first = turns.iter().filter_map(|turn| turn.begun()).min().or(trajectory.started);
    let last = turns.iter().filter_map(|turn| turn.ended()).max();
    let (Some(first), Some(last)) = (first, last) else {
        return html! { p.note { "The log says no times." } };
    };
    let scale = Scale { first, seconds: between(first, last).max(0.001) };
    html! {
        div.waterfall.scroll {
            svg width="100%" height=(SCALE + turns.len() * ROW) role="img" {
                title { "Time of each turn" }
                @for tick in scale.ticks() {
                    line.axis x1=(scale.at(tick)) x2=(scale.at(tick)) y1=(SCALE) y2="100%" {}
                    text x=(scale.at(tick)) y="13" dx="3" { (duration(tick)) }
                }
                @for (index, turn) in turns.iter().enumerate() { (row(turn, SCALE + index * ROW, &scale, place)) }
            }
        }
        p.legend {
            span { span.swatch.model {} "model" } span { span.swatch.queued {} "waiting for the endpoint" }
            span { span.swatch.tool {} "tool" } span { span.swatch.wrong {} "tool with an error" }
        }
    }
}

struct Scale {
    first: OffsetDateTime,
    seconds: f64,
}

/// Room for the number of a turn, in percent.
const MARGIN: f64 = 6.0;

impl Scale {
    fn at(&self, seconds: f64) -> String {
        format!("{:.3}%", MARGIN + (100.0 - MARGIN) * (seconds / self.seconds).clamp(0.0, 1.0))
    }

    fn width(&self, seconds: f64) -> String {
        // Thin ones are to be seen too.
        format!("{:.3}%", ((100.0 - MARGIN) * (seconds / self.seconds).clamp(0.0, 1.0)).max(0.15))
    }

    fn since(&self, time: OffsetDateTime) -> f64 {
        between(self.first, time)
    }

    /// Some four round numbers.
    fn ticks(&self) -> Vec<f64> {
        let rough = self.seconds / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough).unwrap_or(10.0) * power;
        (0..8).map(|number| f64::from(number) * step).take_while(|tick| *tick < self.seconds).collect()
    }
}

fn row(turn: &Turn, top: usize, scale: &Scale, place: &Place<'_>) -> Markup {
    let bar = |class: &str, from: f64, seconds: f64, name: &str| {
        html! {
            rect.(class) x=(scale.at(from)) y=(top + 2) width=(scale.width(seconds)) height=(ROW - 4) rx="1" {
                title { "turn " (turn.number) ": " (name) ", " (duration(seconds)) }
            }
        }
    };
    html! {
        a href=(place.turn(turn.number)) aria-label=(format!("turn {}", turn.number)) {
            text x="0" y=(top + 11) { (turn.number) }
            @if let Some(reply) = &turn.reply && let Some(time) = reply.time {
                @let asked = scale.since(time - milliseconds(reply.duration_ms));
                @let queued = reply.queued_ms as f64 / 1e3;
                @if reply.queued_ms > 0 { (bar("queued", asked, queued, "waiting for the endpoint")) }
                (bar("model", asked + queued, reply.duration_ms.saturating_sub(reply.queued_ms) as f64 / 1e3, "model"))
            }
            @for call in &turn.calls {
                @if let Some(begun) = call.begun() {
                    (bar(if call.is_error() { "wrong" } else { "tool" }, scale.since(begun), call.duration_ms() as f64 / 1e3, &call.tool))
                }
            }
        }
    }
}
