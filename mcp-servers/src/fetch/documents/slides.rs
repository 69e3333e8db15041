//! Presentations: the text of each slide and its notes, apart from each other.

use quick_xml::events::Event;

use super::Document;
use super::package::{
    Package, attribute, core_facts, member, next, open, reader, relationships, table, text,
};

const MAIN: &str = "ppt/presentation.xml";
/// More slides than anyone sits through.
const MAX_SLIDES: usize = 5_000;

pub(super) fn read(body: Vec<u8>) -> Result<Document, String> {
    let mut package = open(body)?;
    let main = member(&mut package, MAIN)?.ok_or("the file has no presentation in it")?;
    let parts = relationships(&mut package, MAIN)?;
    let ids = slide_ids(&main);
    let mut content = String::new();
    let count = ids.len();
    for (index, id) in ids.iter().take(MAX_SLIDES).enumerate() {
        let Some(part) = parts.get(id) else { continue };
        let Some(xml) = member(&mut package, &part.target)? else { continue };
        let is_hidden = xml.get(..xml.len().min(2_000)).is_some_and(|start| start.contains("show=\"0\""));
        let hidden = if is_hidden { " (hidden)" } else { "" };
        content.push_str(&format!("## Slide {} of {count}{hidden}\n\n{}\n\n", index + 1, slide(&xml)));
        if let Some(notes) = notes(&mut package, &part.target)? {
            content.push_str(&format!("Speaker notes of slide {}: {notes}\n\n", index + 1));
        }
    }
    content.truncate(content.trim_end().len());
    let (title, date) = core_facts(&mut package);
    Ok(Document { text: content, title, date, pictures: Vec::new() })
}

/// Relationship ids of the slides in the order of the show, which is not that of their file names.
fn slide_ids(xml: &str) -> Vec<String> {
    let mut reader = reader(xml);
    let mut ids = Vec::new();
    loop {
        match next(&mut reader) {
            Event::Start(element) | Event::Empty(element)
                if AsRef::<str>::as_ref(&element.local_name()) == "sldId" =>
            {
                let id = element.attributes().with_checks(false).flatten().find_map(|attribute| {
                    (AsRef::<str>::as_ref(&attribute.key) == "r:id").then(|| attribute.value.to_string())
                });
                ids.extend(id);
            }
            Event::Eof => return ids,
            _ => {}
        }
    }
}

fn notes(package: &mut Package, slide: &str) -> Result<Option<String>, String> {
    let links = relationships(package, slide)?;
    let Some(part) = links.values().find(|link| link.kind.ends_with("/notesSlide")) else { return Ok(None) };
    let Some(xml) = member(package, &part.target)? else { return Ok(None) };
    let text = self::slide(&xml);
    // The number of the page is a field of every note.
    let lines: Vec<&str> = text.lines().filter(|line| line.trim().parse::<u32>().is_err()).collect();
    let text = lines.join("\n").trim().to_owned();
    Ok((!text.is_empty()).then_some(text))
}

/// Paragraphs, tables and the descriptions of pictures.
fn slide(xml: &str) -> String {
    let mut reader = reader(xml);
    let mut blocks: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    let (mut in_text, mut rows, mut cell): (bool, Option<Vec<Vec<String>>>, Vec<String>) =
        (false, None, Vec::new());
    loop {
        let event = next(&mut reader);
        match &event {
            Event::Start(element) | Event::Empty(element) => {
                let name = element.local_name();
                match AsRef::<str>::as_ref(&name) {
                    "t" => in_text = matches!(event, Event::Start(_)),
                    "br" => paragraph.push('\n'),
                    "tbl" => rows = Some(Vec::new()),
                    "tr" => rows.iter_mut().for_each(|rows| rows.push(Vec::new())),
                    "cNvPr" => {
                        if let Some(text) = attribute(element, "descr").filter(|text| !text.trim().is_empty())
                        {
                            blocks.push(format!("[picture: {}]", text.trim()));
                        }
                    }
                    _ => {}
                }
            }
            Event::End(element) => match AsRef::<str>::as_ref(&element.local_name()) {
                "t" => in_text = false,
                "p" => {
                    let done = std::mem::take(&mut paragraph).trim().to_owned();
                    match (&rows, done.is_empty()) {
                        (_, true) => {}
                        (Some(_), false) => cell.push(done),
                        (None, false) => blocks.push(done),
                    }
                }
                "tc" => {
                    let done = std::mem::take(&mut cell).join("\n");
                    rows.iter_mut().flat_map(|rows| rows.last_mut()).for_each(|row| row.push(done.clone()));
                }
                "tbl" => blocks.extend(rows.take().map(|rows| table(&rows))),
                _ => {}
            },
            Event::Eof => break,
            other => {
                if let Some(text) = text(other).filter(|_| in_text) {
                    paragraph.push_str(&text);
                }
            }
        }
    }
    blocks.join("\n")
}
