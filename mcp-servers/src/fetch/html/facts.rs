//! What a page says about itself.

use html5ever::local_name;
use serde_json::Value;

use super::dom::{DOCUMENT, Dom, Into, Step};

/// Longer is no title.
const MAX_TITLE_BYTES: usize = 1_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) title: Option<String>,
    pub(super) language: Option<String>,
    pub(super) date: Option<String>,
    /// `<base href>`, unresolved.
    pub(super) base: Option<String>,
}

/// Names under which pages give their date, the best first.
const DATE_NAMES: [&str; 12] = [
    "article:published_time",
    "datepublished",
    "date",
    "dc.date",
    "dc.date.issued",
    "dcterms.created",
    "citation_publication_date",
    "citation_date",
    "pubdate",
    "article:modified_time",
    "datemodified",
    "last-modified",
];

pub(super) fn read(dom: &Dom) -> Facts {
    let mut facts = Facts::default();
    let mut heading = None;
    let mut open_graph_title = None;
    let mut dates: Vec<(usize, String)> = Vec::new();
    let mut time_element = None;
    dom.walk(DOCUMENT, |step| {
        let Step::Enter(id) = step else { return Into::Children };
        let Some(element) = dom.element(id).filter(|element| element.is_html) else { return Into::Children };
        match element.name {
            local_name!("html") => facts.language = filled(element.attribute(&local_name!("lang"))),
            local_name!("title") if facts.title.is_none() => {
                facts.title = filled(Some(&dom.text(id, MAX_TITLE_BYTES)));
            }
            local_name!("h1") if heading.is_none() => heading = filled(Some(&dom.text(id, MAX_TITLE_BYTES))),
            local_name!("base") if facts.base.is_none() => {
                facts.base = filled(element.attribute(&local_name!("href")));
            }
            local_name!("meta") => {
                let name =
                    ["property", "name", "itemprop"].iter().find_map(|name| element.attribute_named(name));
                let name = name.unwrap_or_default().to_lowercase();
                let content = filled(element.attribute(&local_name!("content")));
                if name == "og:title" {
                    open_graph_title = content;
                } else if let (Some(rank), Some(content)) =
                    (DATE_NAMES.iter().position(|known| *known == name), content)
                {
                    dates.push((rank, content));
                }
            }
            local_name!("time") if time_element.is_none() => {
                time_element = filled(element.attribute(&local_name!("datetime")));
            }
            local_name!("script") => {
                let date = linked_data_date(dom, id);
                dates.extend(date.map(|date| (1, date)));
            }
            _ => {}
        }
        Into::Children
    });
    dates.sort_by_key(|(rank, _)| *rank);
    facts.date = dates.into_iter().next().map(|(_, date)| date).or(time_element);
    // A heading names the page, and a title often the site with it; but a title is always meant for the page.
    facts.title = facts.title.or(open_graph_title).or(heading);
    facts
}

fn linked_data_date(dom: &Dom, script: u32) -> Option<String> {
    let text = dom.children(script).find_map(|child| match &dom.node(child).data {
        super::dom::Data::Text(text) => Some(text),
        _ => None,
    })?;
    let data: Value = serde_json::from_str(text).ok()?;
    let graph = data.get("@graph").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let nodes = data.as_array().map(Vec::as_slice).unwrap_or_default();
    let date = std::iter::once(&data)
        .chain(graph)
        .chain(nodes)
        .find_map(|node| node.get("datePublished").or_else(|| node.get("dateModified"))?.as_str());
    date.map(ToOwned::to_owned)
}

fn filled(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
