//! Which elements stand by themselves.

use html5ever::{LocalName, local_name};

pub(super) fn heading_level(name: &LocalName) -> Option<usize> {
    let level = match *name {
        local_name!("h1") => 1,
        local_name!("h2") => 2,
        local_name!("h3") => 3,
        local_name!("h4") => 4,
        local_name!("h5") => 5,
        local_name!("h6") => 6,
        _ => return None,
    };
    Some(level)
}

/// Lines before and after a block.
pub(super) fn block_breaks(name: &LocalName) -> u8 {
    match *name {
        local_name!("p") | local_name!("section") | local_name!("article") | local_name!("figure") => 2,
        _ => 1,
    }
}

pub(super) fn is_block(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("address")
            | local_name!("article")
            | local_name!("aside")
            | local_name!("body")
            | local_name!("caption")
            | local_name!("center")
            | local_name!("dd")
            | local_name!("details")
            | local_name!("div")
            | local_name!("dl")
            | local_name!("dt")
            | local_name!("fieldset")
            | local_name!("figcaption")
            | local_name!("figure")
            | local_name!("footer")
            | local_name!("form")
            | local_name!("header")
            | local_name!("legend")
            | local_name!("main")
            | local_name!("nav")
            | local_name!("noscript")
            | local_name!("optgroup")
            | local_name!("option")
            | local_name!("p")
            | local_name!("section")
            | local_name!("summary")
            | local_name!("table")
            | local_name!("tbody")
            | local_name!("td")
            | local_name!("tfoot")
            | local_name!("th")
            | local_name!("thead")
            | local_name!("title")
            | local_name!("tr")
    )
}

/// What stands in a line, and is told from its neighbours by its style alone.
pub(super) fn is_phrase(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("a")
            | local_name!("abbr")
            | local_name!("data")
            | local_name!("label")
            | local_name!("output")
            | local_name!("span")
            | local_name!("time")
    )
}
