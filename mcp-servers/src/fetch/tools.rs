//! What the fetch server offers, in words and schemas.

use rmcp::model::{Prompt, PromptArgument, Tool, ToolAnnotations};

use super::documents::Cells;
use crate::schema::{self, Kind, Presence, Property};

pub(super) const DEFAULT_LENGTH: u64 = 5_000;
pub(super) const MAX_LENGTH: u64 = 999_999;
pub(super) const MODES: [&str; 3] = ["readable", "full", "raw"];

/// The reference server's parameters first, with its bounds; its defaults stand in the words.
pub(super) fn tools() -> Vec<Tool> {
    vec![fetch(), find(), links(), archive()]
}

const URL: Property =
    Property { name: "url", kind: Kind::Address, presence: Presence::Required, description: "URL to fetch" };
const MAX_LENGTH_PROPERTY: Property = Property {
    name: "max_length",
    kind: Kind::IntegerFrom(1, MAX_LENGTH),
    presence: Presence::Optional,
    description: "Maximum number of characters to return (default 5000)",
};
const START_INDEX: Property = Property {
    name: "start_index",
    kind: Kind::IntegerFrom(0, u64::MAX),
    presence: Presence::Optional,
    description: "On return output starting at this character index, useful if a previous fetch was truncated and \
                  more content is required (default 0)",
};

fn fetch() -> Tool {
    let input = schema::object(&[
        URL,
        MAX_LENGTH_PROPERTY,
        START_INDEX,
        Property {
            name: "raw",
            kind: Kind::Boolean,
            presence: Presence::Optional,
            description: "Get the actual HTML content of the requested page, without simplification (default false)",
        },
        Property {
            name: "mode",
            kind: Kind::Choice(&MODES),
            presence: Presence::Optional,
            description: "readable (default): the main content as Markdown; full: all that is visible on the page; \
                          raw: the source",
        },
        Property {
            name: "cells",
            kind: Kind::Choice(&Cells::NAMES),
            presence: Presence::Optional,
            description: "For spreadsheets, what is shown beside the values (default): formulas, fill colors, or all",
        },
    ]);
    Tool::new(
        "fetch",
        "Fetches a URL from the internet and returns it as Markdown. Reads web pages, PDF, Word, Excel, PowerPoint, \
         CSV, JSON, XML, text and zip files; shows pictures. Long results come in parts: call again with start_index, \
         or use find.\n\nAlthough originally you did not have internet access, and were advised to refuse and tell \
         the user this, this tool now grants you internet access. Now you can fetch the most up-to-date information \
         and let the user know that.",
        input,
    )
    .with_title("Fetch a page or document")
    .with_annotations(annotations())
}

/// The address after all redirects, in the results of tools that look into a page.
const FOUND_AT: Property = Property {
    name: "url",
    kind: Kind::Text,
    presence: Presence::Required,
    description: "Where the page was found in the end",
};

fn find() -> Tool {
    let input = schema::object(&[
        URL,
        Property {
            name: "pattern",
            kind: Kind::Text,
            presence: Presence::Required,
            description: "Words to look for; letter case does not matter. A regular expression between slashes, such \
                          as /(19|20)\\d\\d/, is taken as one",
        },
        Property {
            name: "context",
            kind: Kind::IntegerFrom(0, 2_000),
            presence: Presence::Optional,
            description: "Characters shown on each side of a hit (default 200)",
        },
        Property {
            name: "max_hits",
            kind: Kind::IntegerFrom(1, 200),
            presence: Presence::Optional,
            description: "Hits shown (default 20)",
        },
    ]);
    let output = schema::object(&[
        FOUND_AT,
        Property {
            name: "total",
            kind: Kind::Integer,
            presence: Presence::Required,
            description: "Hits in all of the page or document",
        },
        Property {
            name: "hits",
            kind: Kind::List,
            presence: Presence::Required,
            description: "The hits with their surroundings; each begins with its character index, for start_index of \
                          fetch",
        },
        Property {
            name: "contaminated",
            kind: Kind::Boolean,
            presence: Presence::Required,
            description: "The page holds a copy of the question",
        },
    ]);
    Tool::new(
        "find",
        "Finds all places in a web page or document (PDF, Word, Excel, …) that hold a pattern, with their \
         surroundings. Better than paging through a long document with fetch.",
        input,
    )
    .with_title("Find in a page or document")
    .with_raw_output_schema(output)
    .with_annotations(annotations())
}

fn links() -> Tool {
    let input = schema::object(&[
        URL,
        Property {
            name: "filter",
            kind: Kind::Text,
            presence: Presence::Optional,
            description: "Only links whose text or address holds these words; letter case does not matter",
        },
        Property {
            name: "max_links",
            kind: Kind::IntegerFrom(1, 1_000),
            presence: Presence::Optional,
            description: "Links shown (default 100)",
        },
    ]);
    let output = schema::object(&[
        FOUND_AT,
        Property {
            name: "total",
            kind: Kind::Integer,
            presence: Presence::Required,
            description: "Links that fit",
        },
        Property {
            name: "links",
            kind: Kind::List,
            presence: Presence::Required,
            description: "Text and absolute address of each link",
        },
    ]);
    Tool::new("links", "Lists the links of a web page, menus included, with absolute addresses.", input)
        .with_title("Links of a page")
        .with_raw_output_schema(output)
        .with_annotations(annotations())
}

fn archive() -> Tool {
    let input = schema::object(&[
        Property { description: "URL of the page as it was then", ..URL },
        Property {
            name: "date",
            kind: Kind::Text,
            presence: Presence::Required,
            description: "Date, such as 2019, 2019-07 or 2019-07-14; the copy that is closest to it is fetched",
        },
        MAX_LENGTH_PROPERTY,
        START_INDEX,
    ]);
    Tool::new(
        "archive",
        "Fetches a web page as it was at a date, from the Internet Archive's Wayback Machine. Use it when a page has \
         changed or is gone, or when a question asks for its state at a certain time.",
        input,
    )
    .with_title("A page as it was")
    .with_annotations(annotations())
}

fn annotations() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(true)
}

pub(super) fn prompts() -> Vec<Prompt> {
    let url = PromptArgument::new("url").with_description("URL to fetch").with_required(true);
    vec![Prompt::new("fetch", Some("Fetch a URL and extract its contents as markdown"), Some(vec![url]))]
}
