//! From letters at places to lines of text: words, columns of tables, columns of print.

/// One letter as it is drawn, in points from the top left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Glyph {
    pub(super) x: f64,
    /// Of the base line.
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) size: f64,
    /// Of the base line, in radians.
    pub(super) angle: f64,
    pub(super) text: String,
}

/// Letters whose base lines differ by less than this share of their size stand on one line.
const SAME_LINE: f64 = 0.45;
/// A gap of this share of the size is a space.
const SPACE: f64 = 0.17;
/// A wider gap is the space between columns of a table.
const CELL_GAP: f64 = 1.1;
/// Share of the size that a line may be lower than the one before without being a new paragraph.
const PARAGRAPH_GAP: f64 = 1.75;
/// The same between rows of a table, which stand further apart.
const ROW_GAP: f64 = 4.0;
/// Print is in columns where an empty strip of at least this width, in sizes of the letters, …
const GUTTER: f64 = 1.0;
/// … runs through this share of the lines, …
const GUTTER_LINES: f64 = 0.7;
/// … and the runs of text beside it have this many letters on average; cells of a table are shorter.
const COLUMN_LETTERS: usize = 24;
/// Fewer lines tell nothing.
const MIN_COLUMN_LINES: usize = 8;

/// A run of text without a wide gap.
#[derive(Debug, Clone)]
struct Run {
    start: f64,
    end: f64,
    text: String,
}

#[derive(Debug, Clone)]
struct Line {
    y: f64,
    size: f64,
    runs: Vec<Run>,
}

/// The text of a page in reading order.
pub(super) fn text_of(mut glyphs: Vec<Glyph>) -> String {
    let mut parts = Vec::new();
    // Text that is turned by a quarter is read on its own: axes of charts, wide tables.
    for quarter in 0..4 {
        let turned: Vec<Glyph> = glyphs.extract_if(.., |glyph| quarter_of(glyph.angle) == quarter).collect();
        let turned: Vec<Glyph> = turned.into_iter().map(|glyph| upright(glyph, quarter)).collect();
        let text = lines_text(lines_of(turned));
        if !text.is_empty() {
            parts.push(text);
        }
    }
    parts.join("\n\n")
}

fn quarter_of(angle: f64) -> u8 {
    // 0 to 3; a rounded quarter of the circle.
    (angle / std::f64::consts::FRAC_PI_2).round().rem_euclid(4.0) as u8
}

fn upright(glyph: Glyph, quarter: u8) -> Glyph {
    let (x, y) = match quarter {
        1 => (glyph.y, -glyph.x),
        2 => (-glyph.x, -glyph.y),
        3 => (-glyph.y, glyph.x),
        _ => (glyph.x, glyph.y),
    };
    Glyph { x, y, ..glyph }
}

fn lines_of(mut glyphs: Vec<Glyph>) -> Vec<Line> {
    glyphs.sort_by(|one, other| one.y.total_cmp(&other.y));
    let mut rows: Vec<Vec<Glyph>> = Vec::new();
    for glyph in glyphs {
        let fits = rows.last().and_then(|row| row.last()).is_some_and(|last| {
            (glyph.y - last.y).abs() <= SAME_LINE * glyph.size.min(last.size)
                // Raised and lowered letters are smaller and belong to the line they stand at.
                || (glyph.y - last.y).abs() <= 0.3 * glyph.size.max(last.size)
        });
        match rows.last_mut() {
            Some(row) if fits => row.push(glyph),
            _ => rows.push(vec![glyph]),
        }
    }
    rows.into_iter().filter_map(line_of).collect()
}

fn line_of(mut row: Vec<Glyph>) -> Option<Line> {
    row.sort_by(|one, other| one.x.total_cmp(&other.x));
    let mut sizes: Vec<f64> = row.iter().map(|glyph| glyph.size).collect();
    sizes.sort_by(f64::total_cmp);
    let size = sizes.get(sizes.len() / 2).copied()?;
    let y = row.first()?.y;
    let mut runs: Vec<Run> = Vec::new();
    let mut previous: Option<(f64, String)> = None;
    for glyph in row {
        // The same letter at the same place: bold by printing twice.
        if previous
            .as_ref()
            .is_some_and(|(x, text)| (glyph.x - x).abs() < 0.1 * glyph.size && *text == glyph.text)
        {
            continue;
        }
        previous = Some((glyph.x, glyph.text.clone()));
        let end = glyph.x + glyph.width;
        let is_space = glyph.text.trim().is_empty();
        match runs.last_mut() {
            Some(run) if is_space => {
                // A space is as wide as it is drawn; the gap after it decides.
                if glyph.x - run.end < CELL_GAP * size && !run.text.ends_with(' ') {
                    run.text.push(' ');
                }
            }
            None if is_space => {}
            Some(run) if glyph.x - run.end <= CELL_GAP * size => {
                if glyph.x - run.end > SPACE * size && !run.text.ends_with(' ') {
                    run.text.push(' ');
                }
                run.text.push_str(&glyph.text);
                run.end = run.end.max(end);
            }
            _ => runs.push(Run { start: glyph.x, end, text: glyph.text }),
        }
    }
    for run in &mut runs {
        run.text.truncate(run.text.trim_end().len());
    }
    (!runs.is_empty()).then_some(Line { y, size, runs })
}

fn lines_text(lines: Vec<Line>) -> String {
    match gutter(&lines) {
        Some(at) => {
            let (left, right, whole) = split(lines, at);
            // Headings over all columns come first; most of them stand at the top.
            let mut parts: Vec<String> = Vec::new();
            for part in [whole, left, right] {
                let text = lines_text(part);
                if !text.is_empty() {
                    parts.push(text);
                }
            }
            parts.join("\n\n")
        }
        None => written(&lines),
    }
}

/// Where an empty strip divides the page into columns of print.
fn gutter(lines: &[Line]) -> Option<f64> {
    let start = lines.iter().flat_map(|line| &line.runs).map(|run| run.start).min_by(f64::total_cmp)?;
    let end = lines.iter().flat_map(|line| &line.runs).map(|run| run.end).max_by(f64::total_cmp)?;
    let width = end - start;
    let mut best: Option<(usize, f64)> = None;
    // Looked for in the middle half, in steps of a hundredth of the page.
    for step in 25..=75 {
        let at = start + width * f64::from(step) / 100.0;
        let divided = lines.iter().filter(|line| divides(line, at)).count();
        if best.is_none_or(|(most, _)| divided > most) {
            best = Some((divided, at));
        }
    }
    let (divided, at) = best?;
    if divided < MIN_COLUMN_LINES || (divided as f64) < GUTTER_LINES * lines.len() as f64 {
        return None;
    }
    let beside: Vec<usize> = lines
        .iter()
        .filter(|line| divides(line, at))
        .flat_map(|line| &line.runs)
        .map(|run| run.text.chars().count())
        .collect();
    let letters: usize = beside.iter().sum();
    (letters >= COLUMN_LETTERS * beside.len()).then_some(at)
}

/// Whether a line has text on both sides of a place, and room between.
fn divides(line: &Line, at: f64) -> bool {
    let left = line.runs.iter().filter(|run| run.end <= at).map(|run| run.end).max_by(f64::total_cmp);
    let right = line.runs.iter().filter(|run| run.start >= at).map(|run| run.start).min_by(f64::total_cmp);
    let is_free = line.runs.iter().all(|run| run.end <= at || run.start >= at);
    match (left, right) {
        (Some(left), Some(right)) => is_free && right - left >= GUTTER * line.size,
        _ => false,
    }
}

/// Lines left of a place, right of it, and across.
fn split(lines: Vec<Line>, at: f64) -> (Vec<Line>, Vec<Line>, Vec<Line>) {
    let (mut left, mut right, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        if line.runs.iter().any(|run| run.start < at && run.end > at) {
            whole.push(line);
            continue;
        }
        let (before, after): (Vec<Run>, Vec<Run>) = line.runs.into_iter().partition(|run| run.end <= at);
        for (runs, side) in [(before, &mut left), (after, &mut right)] {
            if !runs.is_empty() {
                side.push(Line { runs, ..line });
            }
        }
    }
    (left, right, whole)
}

/// Lines in which several runs stand below each other are rows of a table.
fn written(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut previous: Option<&Line> = None;
    for line in lines {
        if let Some(previous) = previous {
            let is_table = line.runs.len() > 1 && previous.runs.len() > 1;
            let gap = if is_table { ROW_GAP } else { PARAGRAPH_GAP };
            let is_apart = line.y - previous.y > gap * line.size.max(previous.size);
            text.push_str(if is_apart { "\n\n" } else { "\n" });
        }
        let cells: Vec<&str> = line.runs.iter().map(|run| run.text.as_str()).collect();
        if cells.len() > 1 {
            text.push_str("| ");
            text.push_str(&cells.join(" | "));
            text.push_str(" |");
        } else {
            text.push_str(&cells.concat());
        }
        previous = Some(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters of half their size.
    fn write(glyphs: &mut Vec<Glyph>, x: f64, y: f64, text: &str) {
        for (index, character) in text.chars().enumerate() {
            glyphs.push(Glyph {
                x: x + index as f64 * 5.0,
                y,
                width: 5.0,
                size: 10.0,
                angle: 0.0,
                text: character.to_string(),
            });
        }
    }

    #[test]
    fn words_lines_and_cells() {
        let mut glyphs = Vec::new();
        write(&mut glyphs, 0.0, 10.0, "Weight");
        write(&mut glyphs, 100.0, 10.0, "Price in euros");
        write(&mut glyphs, 0.0, 22.0, "2 kg");
        write(&mut glyphs, 100.0, 22.0, "14.11");
        // Without a letter for the space.
        write(&mut glyphs, 0.0, 60.0, "two");
        write(&mut glyphs, 18.0, 60.0, "words");
        glyphs.reverse();
        assert_eq!(text_of(glyphs), "| Weight | Price in euros |\n| 2 kg | 14.11 |\n\ntwo words");
    }

    #[test]
    fn columns_of_print_are_read_one_after_the_other() {
        let mut glyphs = Vec::new();
        write(&mut glyphs, 60.0, 0.0, "A heading that goes over both of the columns here");
        for line in 0..20 {
            let y = 20.0 + f64::from(line) * 12.0;
            write(&mut glyphs, 0.0, y, &format!("left line {line:02} with many more words"));
            write(&mut glyphs, 250.0, y, &format!("right line {line:02} with many more words"));
        }
        let text = text_of(glyphs);
        assert!(text.starts_with("A heading"), "{text}");
        assert!(text.find("left line 19").unwrap() < text.find("right line 00").unwrap(), "{text}");
    }

    #[test]
    fn turned_text_is_read_by_itself() {
        let mut glyphs = Vec::new();
        write(&mut glyphs, 0.0, 10.0, "upright");
        for (index, character) in "turned".chars().enumerate() {
            glyphs.push(Glyph {
                x: 200.0,
                y: 100.0 - index as f64 * 5.0,
                width: 5.0,
                size: 10.0,
                angle: -std::f64::consts::FRAC_PI_2,
                text: character.to_string(),
            });
        }
        assert_eq!(text_of(glyphs), "upright\n\nturned");
    }
}
