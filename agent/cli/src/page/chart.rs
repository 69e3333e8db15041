//! Charts by hand. Those that are bars stretch to the width of their place and hold no text, which stays HTML and so
//! stays readable at every width; a plot is scaled as a whole.

use gaia_scorer::statistics::Interval;
use maud::{Markup, html};

/// A stretched chart is so many units wide.
const WIDTH: f64 = 1000.0;

/// Something to compare with, on the same scale as the bar.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pub share: f64,
}

/// A piece of a stacked bar. The class is one of `fill-*`.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub class: &'static str,
    pub value: f64,
}

/// A bar of a histogram, with its part that is right.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bin {
    pub all: u64,
    pub right: u64,
}

/// A point of a plot.
#[derive(Debug, Clone)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// Of `y`.
    pub interval: Option<Interval>,
    pub label: String,
    /// One of `fill-*`.
    pub class: &'static str,
}

fn at(share: f64) -> String {
    number(WIDTH * share.clamp(0.0, 1.0))
}

/// Two decimals, and never what is no number.
fn number(value: f64) -> String {
    format!("{:.2}", if value.is_finite() { value } else { 0.0 })
}

/// A bar of a share of the whole width.
pub fn bar(share: f64, class: &str) -> Markup {
    html! {
        svg.stretched viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true" {
            rect.track x="0" y="3" width="1000" height="10" {}
            rect.(class) x="0" y="3" width=(at(share)) height="10" {}
        }
    }
}

/// A share with its interval, and what it is compared with.
pub fn interval_bar(share: f64, interval: Option<Interval>, marks: &[Mark]) -> Markup {
    html! {
        svg.stretched viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true" {
            rect.track x="0" y="3" width="1000" height="10" {}
            rect.fill-accent x="0" y="3" width=(at(share)) height="10" {}
            @if let Some(Interval { low, high }) = interval {
                path.whisker d=(format!("M{low} 4V12M{low} 8H{high}M{high} 4V12", low = at(low), high = at(high))) {}
            }
            @for mark in marks { path.mark d=(format!("M{} 0V16", at(mark.share))) {} }
        }
    }
}

/// Parts of a whole side by side.
pub fn stacked_bar(parts: &[Part]) -> Markup {
    let whole: f64 = parts.iter().map(|part| part.value).sum();
    let starts = parts.iter().scan(0.0, |sum, part| {
        let start = *sum;
        *sum += part.value;
        Some(start)
    });
    html! {
        svg.stretched viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true" {
            rect.track x="0" y="2" width="1000" height="12" {}
            @if whole > 0.0 {
                @for (part, start) in parts.iter().zip(starts) {
                    rect.(part.class) x=(at(start / whole)) y="2" width=(at(part.value / whole)) height="12" {}
                }
            }
        }
    }
}

/// How often what was measured fell into each bin; what is right stands at the bottom.
pub fn histogram(bins: &[Bin]) -> Markup {
    const HEIGHT: f64 = 90.0;
    let most = bins.iter().map(|bin| bin.all).max().unwrap_or(0).max(1) as f64;
    let width = WIDTH / bins.len().max(1) as f64;
    let high = |value: u64| HEIGHT * value as f64 / most;
    html! {
        svg.stretched.tall viewBox="0 0 1000 90" preserveAspectRatio="none" aria-hidden="true" {
            @for (index, bin) in bins.iter().enumerate() {
                @let left = number(index as f64 * width + width * 0.05);
                rect.fill-idle x=(left) y=(number(HEIGHT - high(bin.all))) width=(number(width * 0.9)) height=(number(high(bin.all - bin.right))) {}
                rect.fill-good x=(left) y=(number(HEIGHT - high(bin.right))) width=(number(width * 0.9)) height=(number(high(bin.right))) {}
            }
            path.axis d="M0 89.5H1000" {}
        }
    }
}

/// Shares against something that grows to the right, tenfold from line to line.
pub fn scatter(dots: &[Dot], x_label: &str, x_text: impl Fn(f64) -> String) -> Markup {
    // The plot area.
    const LEFT: f64 = 46.0;
    const RIGHT: f64 = 560.0;
    const TOP: f64 = 14.0;
    const BOTTOM: f64 = 250.0;
    let (least, most) = decades(dots.iter().map(|dot| dot.x));
    let x = |value: f64| {
        let exponent = value.max(10f64.powi(least)).log10();
        LEFT + (RIGHT - LEFT) * (exponent - f64::from(least)) / f64::from(most - least)
    };
    let y = |share: f64| BOTTOM - (BOTTOM - TOP) * share.clamp(0.0, 1.0);
    html! {
        svg.plot viewBox="0 0 720 292" role="img" {
            title { "Share of correct answers against " (x_label) }
            @for step in 0..=4u32 {
                @let share = f64::from(step) / 4.0;
                path.axis d=(format!("M{LEFT} {}H{RIGHT}", number(y(share)))) {}
                text x=(number(LEFT - 6.0)) y=(number(y(share) + 4.0)) text-anchor="end" { (format!("{:.0}%", 100.0 * share)) }
            }
            @for exponent in least..=most {
                @let value = 10f64.powi(exponent);
                path.axis d=(format!("M{x} {TOP}V{BOTTOM}", x = number(x(value)))) {}
                text x=(number(x(value))) y=(number(BOTTOM + 17.0)) text-anchor="middle" { (x_text(value)) }
            }
            text x=(number(RIGHT)) y=(number(BOTTOM + 36.0)) text-anchor="end" { (x_label) }
            @let labels = label_places(&dots.iter().map(|dot| (x(dot.x), y(dot.y), dot.label.chars().count())).collect::<Vec<_>>());
            @for (dot, (label_x, label_y)) in dots.iter().zip(labels) {
                @if let Some(Interval { low, high }) = dot.interval {
                    path.whisker d=(format!("M{x} {}V{}", number(y(low)), number(y(high)), x = number(x(dot.x)))) {}
                }
                circle.dot.(dot.class) cx=(number(x(dot.x))) cy=(number(y(dot.y))) r="6" {}
                text.strong x=(number(label_x)) y=(number(label_y)) { (dot.label) }
            }
        }
    }
}

/// The powers of ten around all values above zero.
fn decades(values: impl Iterator<Item = f64>) -> (i32, i32) {
    let exponents: Vec<f64> =
        values.filter(|value| value.is_finite() && *value > 0.0).map(f64::log10).collect();
    let least = exponents.iter().copied().fold(f64::INFINITY, f64::min).floor();
    let most = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil();
    if !least.is_finite() {
        return (0, 1);
    }
    (least as i32, (most as i32).max(least as i32 + 1))
}

/// Labels right of their points, each a line further down where another one is. A label is given by its point and the
/// number of its characters.
fn label_places(labels: &[(f64, f64, usize)]) -> Vec<(f64, f64)> {
    /// Of a line of text, and of a character in it.
    const LINE: f64 = 15.0;
    const CHARACTER: f64 = 7.5;
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|left, right| labels[*left].1.total_cmp(&labels[*right].1));
    let mut places = vec![(0.0, 0.0); labels.len()];
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for index in order {
        let (x, y, characters) = labels[index];
        let (start, mut line) = (x + 10.0, y + 4.0);
        let end = start + CHARACTER * characters as f64;
        while let Some((.., other)) =
            taken.iter().find(|(from, to, other)| *from < end && start < *to && (other - line).abs() < LINE)
        {
            line = other + LINE;
        }
        taken.push((start, end, line));
        places[index] = (start, line);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_within_their_place_whatever_they_are_given() {
        let text = interval_bar(f64::NAN, Some(Interval { low: -1.0, high: 2.0 }), &[Mark { share: 0.92 }])
            .into_string();
        assert!(text.contains("M0.00 4V12M0.00 8H1000.00") && text.contains("M920.00 0V16"), "{text}");
        assert!(!text.contains("NaN"));
        assert!(bar(1.5, "fill-one").into_string().contains("width=\"1000.00\""));
    }

    #[test]
    fn parts_follow_each_other_and_fill_the_whole() {
        let parts = [1.0, 3.0].map(|value| Part { class: "fill-one", value });
        let text = stacked_bar(&parts).into_string();
        assert!(text.contains("x=\"0.00\" y=\"2\" width=\"250.00\""), "{text}");
        assert!(text.contains("x=\"250.00\" y=\"2\" width=\"750.00\""), "{text}");
        assert!(!stacked_bar(&[]).into_string().contains("NaN"));
    }

    #[test]
    fn scales_hold_all_values_and_labels_do_not_lie_on_each_other() {
        assert_eq!(decades([0.03, 4.2, 0.0, f64::NAN].into_iter()), (-2, 1));
        assert_eq!((decades([5.0].into_iter()), decades([10.0].into_iter())), ((0, 1), (1, 2)));
        assert_eq!(decades([0.0].into_iter()), (0, 1));
        let places = label_places(&[(0.0, 50.0, 9), (5.0, 52.0, 9), (90.0, 51.0, 9), (2.0, 90.0, 9)]);
        assert_eq!(places, [(10.0, 54.0), (15.0, 69.0), (100.0, 55.0), (12.0, 94.0)]);
    }

    #[test]
    fn a_plot_of_nothing_and_of_zeros_has_numbers_only() {
        let zero = Dot { x: 0.0, y: 0.0, interval: None, label: "<b>".to_owned(), class: "fill-one" };
        for dots in [vec![], vec![zero]] {
            let text = scatter(&dots, "x", |value| format!("{value:.0}")).into_string();
            assert!(!text.contains("NaN") && !text.contains("inf") && !text.contains("<b>"), "{text}");
        }
        let text = histogram(&[Bin { all: 4, right: 1 }, Bin::default()]).into_string();
        assert!(text.contains("height=\"67.50\"") && text.contains("height=\"22.50\""), "{text}");
    }
}
