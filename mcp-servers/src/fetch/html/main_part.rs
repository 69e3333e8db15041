//! The part that is the page's content by its own word, and what belongs to it: the heading above with author and date,
//! and what readers wrote below.

use html5ever::local_name;

use super::dom::{Dom, Into, NodeId, Step};
use super::select::{Sizes, is_about, percent};

/// The main element must hold this share of the page's text, in percent. One that holds less was not meant for the text.
const MAIN_PERCENT: u32 = 40;
/// An article has its title, and may be one of several things on a page: one that holds less is not all of the content.
const ARTICLE_PERCENT: u32 = 70;
/// Between the heading of a page and its main part: a teaser, author, date, and how often it was read.
const MAX_LEAD_CHARS: u32 = 1_500;

/// Whether the heading of the page was met on the way to the main part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    Before,
    /// How much may still come.
    After(u32),
    Over,
}

/// Marks all that is beside the main part as skipped, if there is one.
pub(super) fn keep_main_part(dom: &Dom, body: NodeId, sizes: &Sizes, skipped: &mut [bool]) {
    let Some(main) = main_part(dom, body, sizes, skipped) else { return };
    let holds_main = above(dom, main);
    let headings = headings(dom, body, skipped);
    let mut holds_heading = vec![false; dom.nodes.len()];
    for heading in headings {
        above(dom, heading).into_iter().chain([heading]).for_each(|id| holds_heading[id as usize] = true);
    }
    let mut lead = if holds_heading[main as usize] { Lead::Over } else { Lead::Before };
    dom.walk(body, |step| {
        let Step::Enter(id) = step else { return Into::Children };
        if id == main {
            lead = Lead::Over;
            return Into::Skip;
        }
        if skipped[id as usize] {
            return Into::Skip;
        }
        if id == body || holds_main.contains(&id) {
            return Into::Children;
        }
        let text = sizes.text[id as usize];
        match lead {
            Lead::Before if holds_heading[id as usize] => {
                if text > MAX_LEAD_CHARS {
                    // The heading is somewhere in there.
                    return Into::Children;
                }
                lead = Lead::After(MAX_LEAD_CHARS - text);
                return Into::Skip;
            }
            Lead::After(rest) if text <= rest => {
                lead = Lead::After(rest - text);
                return Into::Skip;
            }
            _ => {}
        }
        let is_discussion =
            dom.element(id).is_some_and(|element| is_about(element, &["comments", "replies"]));
        skipped[id as usize] = !is_discussion;
        Into::Skip
    });
}

/// All nodes above one.
fn above(dom: &Dom, id: NodeId) -> Vec<NodeId> {
    let mut here = id;
    std::iter::from_fn(|| {
        here = dom.node(here).parent;
        (here != super::dom::NONE).then_some(here)
    })
    .collect()
}

fn headings(dom: &Dom, body: NodeId, skipped: &[bool]) -> Vec<NodeId> {
    let mut found = Vec::new();
    dom.walk(body, |step| match step {
        Step::Enter(id) if skipped[id as usize] => Into::Skip,
        Step::Enter(id) => {
            if dom.name(id) == Some(&local_name!("h1")) {
                found.push(id);
            }
            Into::Children
        }
        Step::Leave(_) => Into::Children,
    });
    found
}

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
    let holds = |id: &NodeId, share: u32| percent(sizes.text[*id as usize], all) >= share;
    // Several articles are a list of them, which is the content as a whole.
    let article =
        if articles.len() == 1 { articles.into_iter().find(|id| holds(id, ARTICLE_PERCENT)) } else { None };
    mains.into_iter().find(|id| holds(id, MAIN_PERCENT)).or(article)
}
