//! Zip files: what is in them, and the text of what can be read.

use super::package::{Package, bytes, open};
use super::{Document, Wanted};
use crate::fetch::charset;
use crate::fetch::html::{self, Extent};
use crate::fetch::kind::{DocumentKind, Kind, kind};
use url::Url;

/// Members that are listed.
const MAX_LISTED: usize = 2_000;
/// Members whose content is shown.
const MAX_OPENED: usize = 50;
/// A longer member is only listed.
const MAX_MEMBER_BYTES: u64 = 20 * 1024 * 1024;
/// Of all members together.
const MAX_UNPACKED_BYTES: u64 = 60 * 1024 * 1024;

pub(super) fn read(body: Vec<u8>, wanted: Wanted) -> Result<Document, String> {
    let mut package = open(body)?;
    let mut text = list(&mut package)?;
    let mut unpacked = 0;
    for index in 0..package.len().min(MAX_OPENED) {
        let Ok(file) = package.by_index_raw(index) else { continue };
        let Ok(name) = file.name().map(std::borrow::Cow::into_owned) else { continue };
        let (size, is_folder) = (file.size(), file.is_dir());
        drop(file);
        if is_folder || size > MAX_MEMBER_BYTES {
            continue;
        }
        if unpacked > MAX_UNPACKED_BYTES {
            text.push_str("\n\n[further members are only listed: together they are too long]");
            break;
        }
        match bytes(&mut package, &name, MAX_MEMBER_BYTES) {
            Ok(Some(member)) => {
                unpacked += member.len() as u64;
                if let Some(shown) = show(&name, member, wanted) {
                    text.push_str(&format!("\n\n## {name}\n\n{shown}"));
                }
            }
            Ok(None) => {}
            Err(error) => text.push_str(&format!("\n\n## {name}\n\n[cannot be read: {error}]")),
        }
    }
    Ok(Document { text, ..Document::default() })
}

fn list(package: &mut Package) -> Result<String, String> {
    let count = package.len();
    let mut text = format!("Archive with {count} members:\n");
    for index in 0..count.min(MAX_LISTED) {
        let file = package.by_index_raw(index).map_err(|error| format!("the file is damaged: {error}"))?;
        let locked = if file.encrypted() { ", encrypted" } else { "" };
        let name = file.name().unwrap_or("[a name that cannot be read]".into());
        let closed = if file.size() > MAX_MEMBER_BYTES { ", too long to be shown" } else { "" };
        text.push_str(&format!("\n- {name} ({} bytes{locked}{closed})", file.size()));
    }
    if count > MAX_LISTED {
        text.push_str(&format!("\n- and {} more", count - MAX_LISTED));
    }
    Ok(text)
}

/// A member as text, if it has any. Archives in archives stay closed: that is how bombs are built.
fn show(name: &str, member: Vec<u8>, wanted: Wanted) -> Option<String> {
    let url = Url::parse("http://archive.invalid").ok()?.join(name).ok()?;
    match kind(&member, Some("application/octet-stream"), &url) {
        Kind::Document(DocumentKind::Zip) => Some("[an archive in the archive: not opened]".to_owned()),
        Kind::Document(inner) => Some(match super::read(inner, member, wanted) {
            Ok(document) => document.text,
            Err(error) => format!("[cannot be read: {error}]"),
        }),
        Kind::Text => Some(charset::decode(&member, None).0.into_owned()),
        Kind::Html => Some(html::convert(&charset::decode(&member, None).0, &url, Extent::Readable).markdown),
        Kind::Image(_) | Kind::Audio | Kind::Video | Kind::Binary => None,
    }
}
