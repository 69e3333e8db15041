//! The tools as tables: what each takes, and what is sent when it is not given. Names, bounds and defaults are those of
//! the official Brave server.

use rmcp::model::{Tool, ToolAnnotations};

use crate::schema::{self, Kind, Presence, Property};

/// One tool.
pub(super) struct Offer {
    pub(super) name: &'static str,
    title: &'static str,
    description: &'static str,
    pub(super) parameters: &'static [Parameter],
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: ParameterKind,
    pub(super) default: Option<&'static str>,
    pub(super) is_required: bool,
    description: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ParameterKind {
    Query,
    Text,
    Integer(u64, u64),
    Number(f64, f64),
    Flag,
    Choice(&'static [&'static str]),
    Choices(&'static [&'static str]),
    Freshness,
    Goggles,
    /// Sent as a header of the same name.
    Header,
    NumberHeader(f64, f64),
}

use ParameterKind::{
    Choice, Choices, Flag, Freshness, Goggles, Header, Integer, Number, NumberHeader, Query, Text,
};

const fn optional(name: &'static str, kind: ParameterKind, description: &'static str) -> Parameter {
    Parameter { name, kind, default: None, is_required: false, description }
}

const fn with_default(
    name: &'static str,
    kind: ParameterKind,
    default: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { name, kind, default: Some(default), is_required: false, description }
}

const QUERY: Parameter = Parameter {
    name: "query",
    kind: Query,
    default: None,
    is_required: true,
    description: "Search query (max 400 chars, 50 words)",
};
const COUNTRY: Parameter =
    with_default("country", Text, "US", "Country of the results, as two letters (default US)");
const LANGUAGE: Parameter =
    with_default("search_lang", Text, "en", "Language of the results, such as en (default)");
const UI_LANGUAGE: Parameter =
    with_default("ui_lang", Text, "en-US", "Language of the answer, such as en-US (default)");
const SPELLCHECK: Parameter = with_default("spellcheck", Flag, "true", "Correct the query (default true)");
const OFFSET: Parameter = with_default("offset", Integer(0, 9), "0", "Page of results (max 9, default 0)");
const SAFE: Parameter = with_default(
    "safesearch",
    Choice(&["off", "moderate", "strict"]),
    "moderate",
    "Filter of adult content (default moderate)",
);
const FRESHNESS: Parameter = optional(
    "freshness",
    Freshness,
    "Only what was found in the last day (pd), week (pw), month (pm), year (py), or a range such as \
     2022-04-01to2022-07-30",
);
const GOGGLES: Parameter = optional(
    "goggles",
    Goggles,
    "Rules for a ranking of your own: https addresses of goggles, or their text",
);
const SNIPPETS: Parameter =
    optional("extra_snippets", Flag, "Up to 5 more excerpts of each page (needs a plan that has them)");
const API_VERSION: Parameter = optional("api-version", Header, "Version of the API, as a date");
const ACCEPT: Parameter = optional("accept", Header, "Media type of the answer: application/json or */*");
const CACHE_CONTROL: Parameter = optional("cache-control", Header, "no-cache for an answer that is not kept");
const USER_AGENT: Parameter = optional("user-agent", Header, "User agent that the answer is made for");
const FILTERS: &[&str] =
    &["discussions", "faq", "infobox", "news", "query", "summarizer", "videos", "web", "locations", "rich"];

const WEB_PARAMETERS: &[Parameter] = &[
    QUERY,
    COUNTRY,
    LANGUAGE,
    UI_LANGUAGE,
    with_default("count", Integer(1, 20), "10", "Number of results (1-20, default 10)"),
    OFFSET,
    SAFE,
    FRESHNESS,
    with_default(
        "text_decorations",
        Flag,
        "true",
        "Mark the words of the query in the excerpts (default true)",
    ),
    SPELLCHECK,
    with_default("result_filter", Choices(FILTERS), "web,query", "Kinds of results (default web and query)"),
    GOGGLES,
    optional("units", Choice(&["metric", "imperial"]), "Units of measurement"),
    SNIPPETS,
    optional("summary", Flag, "Make a key for brave_summarizer"),
];

pub(super) const WEB: Offer = Offer {
    name: "brave_web_search",
    title: "Brave Web Search",
    description: "Searches the web. Returns one JSON object for each result: url, title, description, and date and \
                  site where known. Use fetch to read a page.",
    parameters: WEB_PARAMETERS,
};
pub(super) const LOCAL: Offer = Offer {
    name: "brave_local_search",
    title: "Brave Local Search",
    description: "Searches for businesses and places: names, addresses, ratings, phone numbers, opening hours. Needs a \
                  Pro plan; falls back to a web search.",
    parameters: WEB_PARAMETERS,
};
const COUNT_50: Parameter =
    with_default("count", Integer(1, 50), "20", "Number of results (1-50, default 20)");
pub(super) const VIDEO: Offer = Offer {
    name: "brave_video_search",
    title: "Brave Video Search",
    description: "Searches for videos. Returns url, title, description, duration and thumbnail_url of each.",
    parameters: &[QUERY, COUNTRY, LANGUAGE, UI_LANGUAGE, COUNT_50, OFFSET, SPELLCHECK, SAFE, FRESHNESS],
};
pub(super) const IMAGE: Offer = Offer {
    name: "brave_image_search",
    title: "Brave Image Search",
    description: "Searches for pictures. Returns title, page and address of each.",
    parameters: &[
        QUERY,
        COUNTRY,
        LANGUAGE,
        with_default("count", Integer(1, 200), "50", "Number of results (1-200, default 50)"),
        with_default(
            "safesearch",
            Choice(&["off", "strict"]),
            "strict",
            "Filter of adult content (default strict)",
        ),
        SPELLCHECK,
    ],
};
pub(super) const NEWS: Offer = Offer {
    name: "brave_news_search",
    title: "Brave News Search",
    description: "Searches for news articles. Returns url, title, age and description of each.",
    parameters: &[
        QUERY,
        COUNTRY,
        LANGUAGE,
        UI_LANGUAGE,
        COUNT_50,
        OFFSET,
        SPELLCHECK,
        SAFE,
        FRESHNESS,
        with_default("extra_snippets", Flag, "false", "Up to 5 more excerpts of each page (default false)"),
        GOGGLES,
    ],
};
pub(super) const SUMMARY: Offer = Offer {
    name: "brave_summarizer",
    title: "Brave Summarizer",
    description: "Returns a summary of web results. First call brave_web_search with summary=true, which gives the key. \
                  Needs a Pro AI plan.",
    parameters: &[
        Parameter {
            name: "key",
            kind: Text,
            default: None,
            is_required: true,
            description: "Key of the summary, from brave_web_search",
        },
        with_default("entity_info", Flag, "false", "Also facts on what is spoken of (default false)"),
        with_default(
            "inline_references",
            Flag,
            "false",
            "Addresses of the sources in the text (default false)",
        ),
    ],
};
pub(super) const CONTEXT: Offer = Offer {
    name: "brave_llm_context",
    title: "Brave LLM Context",
    description: "Returns the relevant parts of web pages themselves: text, tables and code, with their sources.",
    parameters: &[
        QUERY,
        optional("country", Text, "Country of the results, as two letters"),
        optional("search_lang", Text, "Language of the results"),
        optional("count", Integer(1, 50), "Results that are considered (1-50, default 20)"),
        optional("spellcheck", Flag, "Correct the query"),
        optional("maximum_number_of_urls", Integer(1, 50), "Pages in the answer"),
        optional("maximum_number_of_tokens", Integer(1_024, 32_768), "Size of the answer (default 8192)"),
        optional("maximum_number_of_snippets", Integer(1, 256), "Parts in the answer (default 50)"),
        optional(
            "context_threshold_mode",
            Choice(&["disabled", "strict", "lenient", "balanced"]),
            "How relevant a part must be (default balanced)",
        ),
        optional(
            "maximum_number_of_tokens_per_url",
            Integer(512, 8_192),
            "Size of a page's part (default 4096)",
        ),
        optional("maximum_number_of_snippets_per_url", Integer(1, 100), "Parts of one page (default 50)"),
        GOGGLES,
        FRESHNESS,
        optional("enable_local", Flag, "Also places"),
        optional("enable_source_metadata", Flag, "Also facts on the sources"),
        optional("x-loc-lat", NumberHeader(-90.0, 90.0), "Latitude of the client"),
        optional("x-loc-long", NumberHeader(-180.0, 180.0), "Longitude of the client"),
        optional("x-loc-city", Header, "City of the client"),
        optional("x-loc-state", Header, "State of the client, as a code"),
        optional("x-loc-state-name", Header, "State of the client"),
        optional("x-loc-country", Header, "Country of the client, as two letters"),
        optional("x-loc-postal-code", Header, "Postal code of the client"),
        API_VERSION,
        ACCEPT,
        CACHE_CONTROL,
        USER_AGENT,
    ],
};
pub(super) const PLACE: Offer = Offer {
    name: "brave_place_search",
    title: "Brave Place Search",
    description: "Searches for places, cities, addresses and streets, near coordinates or a location.",
    parameters: &[
        Parameter { is_required: false, ..QUERY },
        optional("radius", Number(0.0, f64::MAX), "Metres around the coordinates that are preferred"),
        optional("count", Integer(1, 50), "Number of results (1-50, default 20)"),
        optional("latitude", Number(-90.0, 90.0), "Latitude to search around"),
        optional("longitude", Number(-180.0, 180.0), "Longitude to search around"),
        optional("location", Text, "Place to search around, such as san francisco ca united states"),
        optional("country", Text, "Country, as two letters (default US)"),
        optional("search_lang", Text, "Language of the results (default en)"),
        optional("ui_lang", Text, "Language of the answer (default en-US)"),
        optional("units", Choice(&["metric", "imperial"]), "Units of distance (default metric)"),
        optional(
            "safesearch",
            Choice(&["off", "moderate", "strict"]),
            "Filter of adult content (default strict)",
        ),
        optional("spellcheck", Flag, "Correct the query (default true)"),
        optional("geoloc", Text, "Token of a location"),
        API_VERSION,
        ACCEPT,
        CACHE_CONTROL,
        USER_AGENT,
    ],
};

/// In the order of the official server.
pub(super) const ALL: [&Offer; 8] = [&WEB, &LOCAL, &VIDEO, &IMAGE, &NEWS, &SUMMARY, &CONTEXT, &PLACE];

impl Offer {
    pub(super) fn tool(&self) -> Tool {
        let properties: Vec<Property> = self.parameters.iter().map(Parameter::property).collect();
        Tool::new(self.name, self.description, schema::object(&properties))
            .with_title(self.title)
            .with_annotations(annotations())
    }
}

impl Parameter {
    fn property(&self) -> Property {
        let kind = match self.kind {
            Query | Text | Freshness | Header => Kind::Text,
            Integer(least, most) => Kind::IntegerFrom(least, most),
            Number(..) | NumberHeader(..) => Kind::Number,
            Flag => Kind::Boolean,
            Choice(choices) => Kind::Choice(choices),
            Choices(choices) => Kind::Choices(choices),
            Goggles => Kind::List,
        };
        let presence = if self.is_required { Presence::Required } else { Presence::Optional };
        Property { name: self.name, kind, presence, description: self.description }
    }
}

/// The two tools of the older server.
pub(super) fn legacy() -> Vec<Tool> {
    let tool =
        |name: &'static str, title: &'static str, description: &'static str, properties: &[Property]| {
            Tool::new(name, description, schema::object(properties))
                .with_title(title)
                .with_annotations(annotations())
        };
    let query = Property {
        name: "query",
        kind: Kind::Text,
        presence: Presence::Required,
        description: "Search query (max 400 chars, 50 words)",
    };
    let count = |description| Property {
        name: "count",
        kind: Kind::Number,
        presence: Presence::Optional,
        description,
    };
    let offset = Property {
        name: "offset",
        kind: Kind::Number,
        presence: Presence::Optional,
        description: "Pagination offset (max 9, default 0)",
    };
    vec![
        tool(
            WEB.name,
            WEB.title,
            "Searches the web. Returns title, description and URL of each result. Use fetch to read a page.",
            &[query, count("Number of results (1-20, default 10)"), offset],
        ),
        tool(
            LOCAL.name,
            LOCAL.title,
            "Searches for businesses and places; falls back to a web search.",
            &[query, count("Number of results (1-20, default 5)")],
        ),
    ]
}

fn annotations() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(true)
}
