//! Which parts of a page are shown.
//!
//! The rule is to leave out only what is surely not content: a model that must page through a menu loses a little, one
//! that never sees the table it was sent for loses the question.

use html5ever::{LocalName, local_name};

use super::dom::{DOCUMENT, Data, Dom, Element, Into, NodeId, Step, is_unseen};
use super::{Extent, Shown};

/// A part of a page that says less than this is told from menus by its links alone.
const SHORT_CHARS: u32 = 200;
/// Share of a part's text that stands in links, in percent, from which on it is a list of links to elsewhere.
const MENU_LINK_PERCENT: u32 = 50;
/// The main element must hold this share of the page's text, in percent. One that holds less was not meant for the text.
const MAIN_PERCENT: u32 = 40;
/// What is shown must hold this share of all text outside of menus, in percent; else the whole page is shown.
const KEPT_PERCENT: u32 = 40;
/// A page with less text than this was not understood, or has little to say: then all of it is shown, if that is …
const LITTLE_CHARS: u32 = 250;
/// … several times as much.
const LEFT_OUT_TIMES: u32 = 3;

/// The parts that are shown.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) root: NodeId,
    skipped: Vec<bool>,
    pub(super) shown: Shown,
}

impl Selection {
    pub(super) fn skips(&self, id: NodeId) -> bool {
        self.skipped[id as usize]
    }
}

/// Characters of text below each node, and of those in links.
struct Sizes {
    text: Vec<u32>,
    linked: Vec<u32>,
}

pub(super) fn select(dom: &Dom, extent: Extent) -> Selection {
    let body = body(dom);
    let mut hidden = hidden_parts(dom);
    // Next to content it asks for scripts, or repeats a picture; alone it may be all there is.
    let noscripts: Vec<usize> =
        (0..dom.nodes.len()).filter(|id| dom.name(*id as NodeId) == Some(&local_name!("noscript"))).collect();
    if !noscripts.is_empty() {
        let mut without = hidden.clone();
        noscripts.iter().for_each(|id| without[*id] = true);
        if self::sizes(dom, body, &without).text[body as usize] >= LITTLE_CHARS {
            hidden = without;
        }
    }
    let whole = || Selection { root: body, skipped: hidden.clone(), shown: Shown::WholePage };
    if extent == Extent::Full {
        return whole();
    }
    let sizes = sizes(dom, body, &hidden);
    let mut skipped = hidden.clone();
    skip_surroundings(dom, body, &sizes, &mut skipped);
    let kept = self::sizes(dom, body, &skipped);
    let all = kept.text[body as usize];
    let root = main_part(dom, body, &kept, &skipped).unwrap_or(body);
    let shown = kept.text[root as usize];
    let outside_links = sizes.text[body as usize].saturating_sub(sizes.linked[body as usize]);
    let left_out = sizes.text[body as usize].saturating_sub(shown);
    let is_little = shown < LITTLE_CHARS && left_out > LEFT_OUT_TIMES * shown;
    let shown_outside_links = shown.saturating_sub(kept.linked[root as usize]);
    if is_little || percent(shown_outside_links, outside_links) < KEPT_PERCENT {
        return whole();
    }
    let is_all = root == body && all == sizes.text[body as usize];
    Selection { root, skipped, shown: if is_all { Shown::WholePage } else { Shown::MainContent } }
}

fn percent(part: u32, whole: u32) -> u32 {
    if whole == 0 { 100 } else { (u64::from(part) * 100 / u64::from(whole)) as u32 }
}

fn body(dom: &Dom) -> NodeId {
    let html = dom.children(DOCUMENT).find(|id| dom.name(*id) == Some(&local_name!("html")));
    let body =
        html.and_then(|html| dom.children(html).find(|id| dom.name(*id) == Some(&local_name!("body"))));
    body.or(html).unwrap_or(DOCUMENT)
}

/// What no reader sees.
fn hidden_parts(dom: &Dom) -> Vec<bool> {
    dom.nodes
        .iter()
        .map(|node| match &node.data {
            Data::Element(element) => {
                is_unseen(&element.name)
                    || element.attribute_named("hidden").is_some()
                    || is_styled_away(element)
            }
            Data::Other => true,
            _ => false,
        })
        .collect()
}

fn is_styled_away(element: &Element) -> bool {
    element.attribute(&local_name!("style")).is_some_and(|style| {
        let style: String = style.chars().filter(|character| !character.is_whitespace()).collect();
        style.to_ascii_lowercase().contains("display:none")
    })
}

fn sizes(dom: &Dom, root: NodeId, skipped: &[bool]) -> Sizes {
    let mut sizes = Sizes { text: vec![0; dom.nodes.len()], linked: vec![0; dom.nodes.len()] };
    let mut links = 0u32;
    dom.walk(root, |step| match step {
        Step::Enter(id) if skipped[id as usize] => Into::Skip,
        Step::Enter(id) => {
            match &dom.node(id).data {
                Data::Text(text) => {
                    let length = visible_length(text);
                    sizes.text[id as usize] = length;
                    sizes.linked[id as usize] = if links > 0 { length } else { 0 };
                }
                Data::Element(element) if element.name == local_name!("a") => links += 1,
                _ => {}
            }
            Into::Children
        }
        Step::Leave(id) => {
            if dom.name(id) == Some(&local_name!("a")) {
                links -= 1;
            }
            let (mut text, mut linked) = (sizes.text[id as usize], sizes.linked[id as usize]);
            for child in dom.children(id) {
                text += sizes.text[child as usize];
                linked += sizes.linked[child as usize];
            }
            (sizes.text[id as usize], sizes.linked[id as usize]) = (text, linked);
            Into::Children
        }
    });
    sizes
}

/// Bytes that are not space between words: close to characters, and fast.
fn visible_length(text: &str) -> u32 {
    text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() as u32
}

/// Menus, footers, forms and the like.
fn skip_surroundings(dom: &Dom, body: NodeId, sizes: &Sizes, skipped: &mut [bool]) {
    let mut inside_content = 0u32;
    dom.walk(body, |step| match step {
        Step::Enter(id) => {
            if skipped[id as usize] {
                return Into::Skip;
            }
            let Some(element) = dom.element(id) else { return Into::Children };
            let (text, linked) = (sizes.text[id as usize], sizes.linked[id as usize]);
            let is_menu = percent(linked, text) >= MENU_LINK_PERCENT && text > 0;
            if id != body && is_surrounding(element, is_menu, text, inside_content > 0) {
                skipped[id as usize] = true;
                return Into::Skip;
            }
            inside_content += u32::from(is_content(&element.name));
            Into::Children
        }
        Step::Leave(id) => {
            if dom.name(id).is_some_and(is_content) {
                inside_content -= 1;
            }
            Into::Children
        }
    });
}

fn is_content(name: &LocalName) -> bool {
    matches!(*name, local_name!("article") | local_name!("main"))
}

fn is_surrounding(element: &Element, is_menu: bool, text: u32, inside_content: bool) -> bool {
    let role = element.attribute_named("role").unwrap_or_default();
    match element.name {
        local_name!("nav") | local_name!("button") | local_name!("select") => return true,
        local_name!("footer") => return !inside_content || is_menu,
        local_name!("header") => return is_menu && !inside_content,
        local_name!("aside") => return is_menu,
        local_name!("form") => return text < SHORT_CHARS,
        _ => {}
    }
    match role {
        "navigation" | "search" | "banner" | "menu" | "menubar" | "tablist" => {
            return is_menu || text < SHORT_CHARS;
        }
        "contentinfo" => return !inside_content,
        "dialog" | "alertdialog" => return is_about(element, &["cookie", "consent", "gdpr", "subscribe"]),
        "complementary" => return is_menu,
        _ => {}
    }
    let is_block = matches!(
        element.name,
        local_name!("div")
            | local_name!("section")
            | local_name!("ul")
            | local_name!("ol")
            | local_name!("p")
    );
    if !is_block {
        return false;
    }
    if is_about(
        element,
        &["cookie-banner", "cookie-consent", "cookie-notice", "cookiebar", "gdpr", "consent-banner"],
    ) {
        return true;
    }
    is_menu
        && is_about(
            element,
            &[
                "breadcrumb",
                "menu",
                "navbar",
                "navigation",
                "sidebar",
                "related",
                "recommend",
                "share",
                "social",
                "newsletter",
                "subscribe",
                "promo",
                "advert",
                "sponsor",
                "footer",
                "pagination",
                "skip-link",
                "tag-list",
                "trending",
                "popular",
            ],
        )
}

/// Whether the class or the id of an element names one of these.
fn is_about(element: &Element, words: &[&str]) -> bool {
    [local_name!("class"), local_name!("id")].iter().any(|name| {
        element.attribute(name).is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            words.iter().any(|word| value.contains(word))
        })
    })
}

/// The one part that is the page's content by its own word.
fn main_part(dom: &Dom, body: NodeId, sizes: &Sizes, skipped: &[bool]) -> Option<NodeId> {
    let mut mains = Vec::new();
    let mut articles = Vec::new();
    dom.walk(body, |step| {
        let Step::Enter(id) = step else { return Into::Children };
        if skipped[id as usize] {
            return Into::Skip;
        }
        if let Some(element) = dom.element(id) {
            if element.name == local_name!("main") || element.attribute_named("role") == Some("main") {
                mains.push(id);
            } else if element.name == local_name!("article") {
                articles.push(id);
                return Into::Skip;
            }
        }
        Into::Children
    });
    let all = sizes.text[body as usize];
    let holds_most = |id: &NodeId| percent(sizes.text[*id as usize], all) >= MAIN_PERCENT;
    // Several articles are a list of them, which is the content as a whole.
    let article = if articles.len() == 1 { articles.into_iter().find(holds_most) } else { None };
    mains.into_iter().find(holds_most).or(article)
}
