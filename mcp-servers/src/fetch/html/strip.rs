//! The text of a page without building a tree: for pages on which a tree would be a trap.

/// More text than this of such a page helps nobody.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;

/// What stands between tags, scripts and styles left out. One pass.
pub(super) fn text(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        if text.len() > MAX_TEXT_BYTES {
            break;
        }
        rest = &rest[open..];
        let skipped = ["script", "style", "!--"].into_iter().find(|name| starts_with(&rest[1..], name));
        let end = match skipped {
            Some("!--") => rest.find("-->").map(|end| end + 3),
            Some(name) => find_closing(rest, name),
            None => rest.find('>').map(|end| end + 1),
        };
        text.push(' ');
        rest = end.map_or("", |end| &rest[end..]);
    }
    if text.len() <= MAX_TEXT_BYTES {
        text.push_str(rest);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    decode(&words.join(" "))
}

fn starts_with(text: &str, name: &str) -> bool {
    text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}

fn find_closing(text: &str, name: &str) -> Option<usize> {
    let closing = text.match_indices("</").find(|(at, _)| starts_with(&text[at + 2..], name))?.0;
    text[closing..].find('>').map(|end| closing + end + 1)
}

/// The few references that matter for reading.
fn decode(text: &str) -> String {
    let mut text = text.to_owned();
    for (reference, character) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
    {
        if text.contains(reference) {
            text = text.replace(reference, character);
        }
    }
    text
}
