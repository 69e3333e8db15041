//! Zip files and the XML in them, read within bounds.

use std::collections::HashMap;
use std::io::{Cursor, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

/// Of one member once unpacked. The XML of a long book is a tenth of it.
const MAX_MEMBER_BYTES: u64 = 200 * 1024 * 1024;

pub(super) type Package = ZipArchive<Cursor<Vec<u8>>>;

pub(super) fn open(body: Vec<u8>) -> Result<Package, String> {
    ZipArchive::new(Cursor::new(body)).map_err(|error| format!("the file is damaged: {error}"))
}

/// A member as text; `None` when it is not there.
pub(super) fn member(package: &mut Package, name: &str) -> Result<Option<String>, String> {
    Ok(bytes(package, name, MAX_MEMBER_BYTES)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

pub(super) fn bytes(package: &mut Package, name: &str, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let mut file = match package.by_name(name) {
        Ok(file) => file,
        Err(zip::result::ZipError::FileNotFound) => return Ok(None),
        Err(error) => return Err(format!("`{name}` in the file cannot be read: {error}")),
    };
    // The declared size may lie; what comes out is counted.
    let mut bytes = Vec::new();
    file.by_ref()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("`{name}` in the file is damaged: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("`{name}` in the file unpacks to more than {limit} bytes"));
    }
    Ok(Some(bytes))
}

/// A reader that is lenient in what people's files get wrong. Entities are never expanded beyond the five of XML, so
/// that a bomb of them stays what it is.
pub(super) fn reader(xml: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    reader
}

/// The next event, with damage as the end: what was read so far is worth more than an error.
pub(super) fn next<'a>(reader: &mut Reader<&'a [u8]>) -> Event<'a> {
    reader.read_event().unwrap_or(Event::Eof)
}

pub(super) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    element.attributes().with_checks(false).flatten().find_map(|attribute| {
        let key = attribute.key;
        let is_it = AsRef::<str>::as_ref(&key) == name || AsRef::<str>::as_ref(&key.local_name()) == name;
        is_it.then(|| unescape(&attribute.value))
    })
}

/// The five entities and character references; others stay as they are written.
pub(super) fn unescape(text: &str) -> String {
    quick_xml::escape::unescape(text).map_or_else(|_| text.to_owned(), std::borrow::Cow::into_owned)
}

/// `Id` to target of a part's relationships, targets relative to the root of the package.
pub(super) fn relationships(
    package: &mut Package,
    part: &str,
) -> Result<HashMap<String, Relationship>, String> {
    let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
    let Some(xml) = member(package, &format!("{folder}/_rels/{name}.rels"))? else {
        return Ok(HashMap::new());
    };
    let mut reader = reader(&xml);
    let mut found = HashMap::new();
    loop {
        match next(&mut reader) {
            Event::Start(element) | Event::Empty(element) => {
                if let (Some(id), Some(target)) = (attribute(&element, "Id"), attribute(&element, "Target")) {
                    let kind = attribute(&element, "Type").unwrap_or_default();
                    let is_external = attribute(&element, "TargetMode").as_deref() == Some("External");
                    let target = if is_external { target } else { resolve(folder, &target) };
                    found.insert(id, Relationship { target, kind });
                }
            }
            Event::Eof => return Ok(found),
            _ => {}
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Relationship {
    pub(super) target: String,
    pub(super) kind: String,
}

fn resolve(folder: &str, target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Title and date of a package, as all Office files keep them.
pub(super) fn core_facts(package: &mut Package) -> (Option<String>, Option<String>) {
    let Ok(Some(xml)) = member(package, "docProps/core.xml") else { return (None, None) };
    let text_of = |tag: &str| {
        let start = xml.find(&format!("<{tag}"))?;
        let from = start + xml[start..].find('>')? + 1;
        let text = unescape(xml[from..].split('<').next()?).trim().to_owned();
        (!text.is_empty()).then_some(text)
    };
    (text_of("dc:title"), text_of("dcterms:modified").or_else(|| text_of("dcterms:created")))
}

/// The text that an event carries, with its references resolved.
pub(super) fn text(event: &Event<'_>) -> Option<String> {
    match event {
        Event::Text(text) => Some(unescape(AsRef::<str>::as_ref(text))),
        Event::CData(text) => Some(AsRef::<str>::as_ref(text).to_owned()),
        Event::GeneralRef(reference) => {
            let name: &str = reference.as_ref();
            Some(unescape(&format!("&{name};")))
        }
        _ => None,
    }
}

/// A table as Markdown; cells hold no line breaks.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let width = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut lines = Vec::with_capacity(rows.len() + 1);
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::from("|");
        for column in 0..width {
            let cell = row.get(column).map(String::as_str).unwrap_or_default();
            let cell = cell.trim().replace('|', "\\|").replace('\n', "<br>");
            line.push(' ');
            line.push_str(&cell);
            line.push_str(" |");
        }
        lines.push(line);
        if index == 0 {
            lines.push(format!("|{}", " --- |".repeat(width)));
        }
    }
    lines.join("\n")
}
