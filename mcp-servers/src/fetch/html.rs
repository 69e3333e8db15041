//! HTML as Markdown that keeps what a reader came for: headings, links, lists, tables, code.

mod blocks;
mod convert;
mod dom;
mod embedded;
mod facts;
mod inline;
mod main_part;
mod parse;
mod select;
mod strip;
mod table;

use url::Url;

/// A page with less text lets its scripts fetch or unfold what it shows.
const LITTLE_TEXT_BYTES: usize = 600;

/// Said before the text of a page that no tree was built of.
const TEXT_ONLY: &str = "[this page is too deep, too large or too slow to be laid out: here is its text alone, without links and tables]";

/// How much of a page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The main content, without what surrounds it on every page of a site.
    Readable,
    /// All that is visible.
    Full,
}

/// A page as text, and what it says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readable {
    pub markdown: String,
    pub title: Option<String>,
    pub language: Option<String>,
    /// As the page writes it.
    pub date: Option<String>,
    pub links: Vec<Link>,
    /// What was shown in the end: a page whose extraction would lose too much is shown in full.
    pub shown: Shown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    MainContent,
    #[default]
    WholePage,
    /// The page is too deep or too odd for a tree; its text without any markup.
    TextOnly,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub text: String,
    pub url: String,
}

/// Converts a page that was found at `base`. Bounded in time and memory whatever the input.
pub fn convert(html: &str, base: &Url, extent: Extent) -> Readable {
    let Some(document) = parse::parse(html) else {
        let markdown = format!("{TEXT_ONLY}\n\n{}", strip::text(html));
        return Readable { markdown, shown: Shown::TextOnly, ..Readable::default() };
    };
    let facts = facts::read(&document);
    let base =
        facts.base.as_deref().and_then(|written| base.join(written).ok()).unwrap_or_else(|| base.clone());
    let selection = select::select(&document, extent);
    let mut converted = convert::markdown(&document, &selection, &base);
    if converted.text.len() < LITTLE_TEXT_BYTES {
        let data = embedded::data(&document);
        if !data.is_empty() {
            converted.text.push_str("\n\nData that the page holds for its scripts:\n\n");
            converted.text.push_str(&data);
        }
    }
    // Also when the page's own heading says most of it: the rest is the name of the site.
    if let Some(title) = &facts.title
        && !converted.text.contains(title.as_str())
    {
        converted.text.insert_str(0, &format!("# {title}\n\n"));
    }
    Readable {
        markdown: converted.text,
        title: facts.title,
        language: facts.language,
        date: facts.date,
        links: converted.links,
        shown: selection.shown,
    }
}

#[cfg(test)]
#[path = "html/html_tests.rs"]
mod tests;
