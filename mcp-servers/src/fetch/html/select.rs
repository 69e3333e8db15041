//! Which parts of a page are shown.
//!
//! The rule is to leave out only what is surely not content: a model that must page through a menu loses a little, one
//! that never sees the table it was sent for loses the question.

use html5ever::{LocalName, local_name};

use super::dom::{DOCUMENT, Data, Dom, Element, Into, NodeId, Step, is_unseen};
use super::main_part;
use super::{Extent, Shown};

/// A part of a page that says less than this is told from menus by its links alone.
const SHORT_CHARS: u32 = 200;
/// Share of a part's text that stands in links, in percent, from which on it is a list of links to elsewhere.
const MENU_LINK_PERCENT: u32 = 50;
/// The same for a part that is named like one: dates and numbers stand beside its links.
const NAMED_MENU_LINK_PERCENT: u32 = 35;
/// What is shown must hold this share of all text outside of links, in percent; else the whole page is shown.
const KEPT_PERCENT: u32 = 40;
/// A page with less text than this was not understood, or has little to say: then all of it is shown, if what was left
/// out is, outside of links, …
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
pub(super) struct Sizes {
    pub(super) text: Vec<u32>,
    pub(super) linked: Vec<u32>,
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
    let all = sizes(dom, body, &hidden);
    let mut skipped = hidden.clone();
    skip_surroundings(dom, body, &all, &mut skipped);
    main_part::keep_main_part(dom, body, &sizes(dom, body, &skipped), &mut skipped);
    let kept = sizes(dom, body, &skipped);
    let size = |sizes: &Sizes| (sizes.text[body as usize], sizes.linked[body as usize]);
    let ((text, linked), (shown, shown_linked)) = (size(&all), size(&kept));
    let (outside_links, shown_outside_links) = (text - linked, shown - shown_linked);
    let left_out = outside_links - shown_outside_links;
    let is_little = shown < LITTLE_CHARS && left_out > LEFT_OUT_TIMES * shown;
    let loses_much = left_out >= LITTLE_CHARS && percent(shown_outside_links, outside_links) < KEPT_PERCENT;
    if is_little || loses_much || shown == 0 {
        return whole();
    }
    let shown = if shown == text { Shown::WholePage } else { Shown::MainContent };
    Selection { root: body, skipped, shown }
}

pub(super) fn percent(part: u32, whole: u32) -> u32 {
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

/// How much a part of a page says, and how much the content that it stands in.
#[derive(Clone, Copy)]
struct Share {
    text: u32,
    linked: u32,
    /// Text of the `article` or `main` around it.
    content: Option<u32>,
}

impl Share {
    fn is_menu(self) -> bool {
        self.has_links(MENU_LINK_PERCENT)
    }

    fn has_links(self, share_percent: u32) -> bool {
        self.text > 0 && percent(self.linked, self.text) >= share_percent
    }

    /// A list of links that is what a page is there for.
    fn is_the_content(self) -> bool {
        self.content.is_some_and(|content| percent(self.text, content) >= MENU_LINK_PERCENT)
    }
}

/// Menus, footers, forms and the like.
fn skip_surroundings(dom: &Dom, body: NodeId, sizes: &Sizes, skipped: &mut [bool]) {
    let mut contents: Vec<u32> = Vec::new();
    dom.walk(body, |step| match step {
        Step::Enter(id) => {
            if skipped[id as usize] {
                return Into::Skip;
            }
            let Some(element) = dom.element(id) else { return Into::Children };
            let (text, linked) = (sizes.text[id as usize], sizes.linked[id as usize]);
            let share = Share { text, linked, content: contents.last().copied() };
            if id != body && is_surrounding(element, share) {
                skipped[id as usize] = true;
                return Into::Skip;
            }
            if is_content(&element.name) {
                contents.push(text);
            }
            Into::Children
        }
        Step::Leave(id) => {
            if dom.name(id).is_some_and(is_content) {
                contents.pop();
            }
            Into::Children
        }
    });
}

fn is_content(name: &LocalName) -> bool {
    matches!(*name, local_name!("article") | local_name!("main"))
}

fn is_surrounding(element: &Element, share: Share) -> bool {
    let (is_menu, text, inside_content) = (share.is_menu(), share.text, share.content.is_some());
    let role = element.attribute_named("role").unwrap_or_default();
    if is_clutter(element) {
        return true;
    }
    match element.name {
        local_name!("nav") | local_name!("button") | local_name!("select") => return true,
        local_name!("footer") => return !inside_content || is_menu,
        local_name!("header") => return is_menu && !inside_content,
        local_name!("aside") => return is_menu,
        local_name!("form") => return text < SHORT_CHARS,
        _ => {}
    }
    match role {
        // What an encyclopedia says before a page begins.
        "note" => return false,
        "navigation" | "search" | "banner" | "menu" | "menubar" | "tablist" => {
            return is_menu || text < SHORT_CHARS;
        }
        "contentinfo" => return !inside_content,
        "dialog" | "alertdialog" => return is_about(element, &["cookie", "consent", "gdpr", "subscribe"]),
        "complementary" => return share.has_links(NAMED_MENU_LINK_PERCENT),
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
    share.has_links(NAMED_MENU_LINK_PERCENT)
        && !share.is_the_content()
        && (is_named_nav(element)
            || is_about(
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
                    "interlanguage",
                    "portlet",
                    "dropdown",
                    "topbar",
                    "toolbar",
                    "masthead",
                ],
            ))
}

/// What common engines put beside headings and notes: marks to edit, to link, to jump.
fn is_clutter(element: &Element) -> bool {
    let classes = element.attribute(&local_name!("class")).unwrap_or_default();
    classes.split_ascii_whitespace().any(|class| {
        matches!(
            class,
            "mw-editsection"
                | "mw-jump-link"
                | "mw-cite-backlink"
                | "mw-portlet-lang"
                | "printfooter"
                | "headerlink"
                | "viewcode-link"
                | "anchor-link"
                | "skip-link"
        )
    })
}

/// `nav` as a word of the class or the id, as in `main-nav`.
fn is_named_nav(element: &Element) -> bool {
    [local_name!("class"), local_name!("id")].iter().any(|name| {
        let value = element.attribute(name).unwrap_or_default();
        value
            .split(|character: char| !character.is_ascii_alphanumeric())
            .any(|word| word.eq_ignore_ascii_case("nav"))
    })
}

/// Whether the class or the id of an element names one of these.
pub(super) fn is_about(element: &Element, words: &[&str]) -> bool {
    [local_name!("class"), local_name!("id")].iter().any(|name| {
        element.attribute(name).is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            words.iter().any(|word| value.contains(word))
        })
    })
}
