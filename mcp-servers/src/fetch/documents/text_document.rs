//! Word documents: paragraphs, headings, lists, tables, links, notes, comments, headers, in the order of the document.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};

use super::Document;
use super::package::{
    Package, Relationship, attribute, core_facts, member, next, open, reader, relationships, table, text,
};

const MAIN: &str = "word/document.xml";

pub(super) fn read(body: Vec<u8>) -> Result<Document, String> {
    let mut package = open(body)?;
    let main = member(&mut package, MAIN)?.ok_or("the file has no document in it")?;
    let links = relationships(&mut package, MAIN)?;
    let mut content = part(&main, &links);
    for (name, title) in [
        ("word/footnotes.xml", "Footnotes"),
        ("word/endnotes.xml", "Endnotes"),
        ("word/comments.xml", "Comments"),
    ] {
        add_part(&mut package, name, title, &mut content)?;
    }
    let mut around: Vec<(String, String)> = links
        .values()
        .filter(|link| link.kind.ends_with("/header") || link.kind.ends_with("/footer"))
        .map(|link| (link.target.clone(), link.kind.rsplit('/').next().unwrap_or_default().to_owned()))
        .collect();
    around.sort();
    for (name, kind) in around {
        add_part(
            &mut package,
            &name,
            if kind == "header" { "Page header" } else { "Page footer" },
            &mut content,
        )?;
    }
    let (title, date) = core_facts(&mut package);
    Ok(Document { text: content, title, date, pictures: Vec::new() })
}

fn add_part(package: &mut Package, name: &str, title: &str, content: &mut String) -> Result<(), String> {
    let Some(xml) = member(package, name)? else { return Ok(()) };
    let text = part(&xml, &HashMap::new());
    if !text.is_empty() && !content.contains(&text) {
        content.push_str(&format!("\n\n## {title}\n\n{text}"));
    }
    Ok(())
}

/// One part of a document, as Markdown.
fn part(xml: &str, links: &HashMap<String, Relationship>) -> String {
    let mut writer = Writer::new(links);
    let mut reader = reader(xml);
    loop {
        let event = next(&mut reader);
        match &event {
            Event::Start(element) => writer.start(element, Shape::Open),
            Event::Empty(element) => writer.start(element, Shape::Empty),
            Event::End(element) => writer.end(AsRef::<str>::as_ref(&element.local_name())),
            Event::Eof => break,
            other => {
                if let Some(text) = text(other) {
                    writer.text(&text);
                }
            }
        }
    }
    writer.finish()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Open,
    Empty,
}

struct Writer<'a> {
    links: &'a HashMap<String, Relationship>,
    blocks: Vec<String>,
    paragraph: String,
    style: String,
    list_level: Option<usize>,
    tables: Vec<Table>,
    link: Option<(String, usize)>,
    page: usize,
    /// Inside of an element whose text is shown.
    in_text: bool,
    /// Depth inside of what repeats or replaces the content.
    skipped: usize,
    note: Option<String>,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    cell: Vec<String>,
    span: usize,
}

impl<'a> Writer<'a> {
    fn new(links: &'a HashMap<String, Relationship>) -> Self {
        Self {
            links,
            blocks: Vec::new(),
            paragraph: String::new(),
            style: String::new(),
            list_level: None,
            tables: Vec::new(),
            link: None,
            page: 1,
            in_text: false,
            skipped: 0,
            note: None,
        }
    }

    fn start(&mut self, element: &BytesStart<'_>, shape: Shape) {
        let name = element.local_name();
        let name: &str = name.as_ref();
        if self.skipped > 0 || name == "Fallback" {
            self.skipped += usize::from(shape == Shape::Open);
            return;
        }
        match name {
            "p" if shape == Shape::Open => self.begin_paragraph(),
            "pStyle" => self.style = attribute(element, "val").unwrap_or_default(),
            "ilvl" => self.list_level = attribute(element, "val").and_then(|level| level.parse().ok()),
            "numId" if attribute(element, "val").as_deref() == Some("0") => self.list_level = None,
            "t" => self.in_text = shape == Shape::Open,
            "tab" => self.paragraph.push('\t'),
            "br" | "cr" => {
                if attribute(element, "type").as_deref() == Some("page") {
                    self.turn_page();
                } else {
                    self.paragraph.push('\n');
                }
            }
            "lastRenderedPageBreak" => self.turn_page(),
            "noBreakHyphen" => self.paragraph.push('-'),
            "tbl" => {
                self.end_paragraph();
                self.tables.push(Table::default());
            }
            "tr" => self.tables.last_mut().into_iter().for_each(|table| table.rows.push(Vec::new())),
            "tc" => self.tables.last_mut().into_iter().for_each(|table| table.span = 1),
            "gridSpan" => {
                let span = attribute(element, "val").and_then(|span| span.parse().ok()).unwrap_or(1);
                self.tables.last_mut().into_iter().for_each(|table| table.span = usize::min(span, 63));
            }
            "hyperlink" => {
                let target = attribute(element, "id").and_then(|id| self.links.get(&id));
                self.link = target.map(|target| (target.target.clone(), self.paragraph.len()));
            }
            "docPr" => {
                let description = attribute(element, "descr").filter(|text| !text.trim().is_empty());
                if let Some(description) = description {
                    self.paragraph.push_str(&format!("[picture: {}]", description.trim()));
                }
            }
            "footnoteReference" | "endnoteReference" => {
                let id = attribute(element, "id").unwrap_or_default();
                self.paragraph.push_str(&format!("[^{id}]"));
            }
            "footnote" | "endnote" | "comment" => {
                let author =
                    attribute(element, "author").map(|author| format!(" {author}")).unwrap_or_default();
                self.note = attribute(element, "id").map(|id| format!("[^{id}]{author}: "));
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        match name {
            "t" => self.in_text = false,
            "p" => self.end_paragraph(),
            "hyperlink" => {
                if let Some((target, start)) = self.link.take()
                    && start < self.paragraph.len()
                    && self.paragraph.is_char_boundary(start)
                    && self.paragraph[start..] != target
                {
                    let label = self.paragraph.split_off(start);
                    self.paragraph.push_str(&format!("[{label}]({target})"));
                }
            }
            "tc" => {
                self.end_paragraph();
                if let Some(table) = self.tables.last_mut() {
                    let cell = std::mem::take(&mut table.cell).join("\n");
                    let span = table.span;
                    if let Some(row) = table.rows.last_mut() {
                        row.push(cell);
                        row.extend(std::iter::repeat_n(String::new(), span.saturating_sub(1)));
                    }
                }
            }
            "tbl" => {
                let Some(done) = self.tables.pop() else { return };
                match self.tables.last_mut() {
                    // A table in a cell is read row by row.
                    Some(outer) => {
                        outer.cell.extend(done.rows.iter().map(|row| row.join("; ")));
                    }
                    None => self.blocks.push(table(&done.rows)),
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_text && self.skipped == 0 {
            self.paragraph.push_str(text);
        }
    }

    fn begin_paragraph(&mut self) {
        // Text boxes stand inside of a paragraph.
        self.end_paragraph();
        self.style.clear();
        self.list_level = None;
    }

    fn turn_page(&mut self) {
        self.page += 1;
        // A break inside of a paragraph that begins a page belongs before it.
        let mark = format!("[page {}]", self.page);
        if self.tables.is_empty() {
            if self.paragraph.trim().is_empty() {
                self.blocks.push(mark);
            } else {
                self.paragraph.push_str(&format!(" {mark} "));
            }
        }
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        let plain = paragraph.trim();
        if plain.is_empty() {
            return;
        }
        let note = self.note.take().unwrap_or_default();
        if let Some(table) = self.tables.last_mut() {
            table.cell.push(format!("{note}{plain}"));
            return;
        }
        let block = match (heading_level(&self.style), self.list_level) {
            (Some(level), _) => format!("{} {plain}", "#".repeat(level)),
            (None, Some(level)) => format!("{}- {plain}", "  ".repeat(level.min(8))),
            (None, None) => format!("{note}{plain}"),
        };
        self.blocks.push(block);
    }

    fn finish(mut self) -> String {
        self.end_paragraph();
        let mut text = String::new();
        for (index, block) in self.blocks.iter().enumerate() {
            let is_item = |block: &str| block.trim_start().starts_with("- ");
            let glue = if index == 0 {
                ""
            } else if is_item(block) && is_item(&self.blocks[index - 1]) {
                "\n"
            } else {
                "\n\n"
            };
            text.push_str(glue);
            text.push_str(block);
        }
        text
    }
}

/// `Heading2`, `Heading 2`, `heading2` and the names of translated templates that end with the number.
fn heading_level(style: &str) -> Option<usize> {
    let lower = style.to_lowercase();
    if lower == "title" {
        return Some(1);
    }
    let is_heading = ["heading", "überschrift", "berschrift", "titre", "ttulo", "titolo"]
        .iter()
        .any(|name| lower.starts_with(name));
    let level = lower.chars().last()?.to_digit(10)? as usize;
    (is_heading && (1..=6).contains(&level)).then_some(level)
}
