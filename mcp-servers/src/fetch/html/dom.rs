//! A page as a tree in one vector: small, and walked without recursion, however deep it is.

use html5ever::tendril::StrTendril;
use html5ever::{LocalName, local_name};

pub(super) type NodeId = u32;

/// No node. The first node is the document, which is nobody's child or sibling.
pub(super) const NONE: NodeId = 0;
pub(super) const DOCUMENT: NodeId = 0;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: NodeId,
    pub(super) first: NodeId,
    pub(super) last: NodeId,
    pub(super) next: NodeId,
    pub(super) previous: NodeId,
    pub(super) depth: u32,
    pub(super) data: Data,
}

#[derive(Debug)]
pub(super) enum Data {
    Document,
    Element(Box<Element>),
    Text(StrTendril),
    /// Comments, instructions, template contents.
    Other,
}

#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: LocalName,
    /// Of HTML; `a` in SVG is no link of the page.
    pub(super) is_html: bool,
    /// Those that are ever looked at.
    pub(super) attributes: Vec<(LocalName, StrTendril)>,
}

impl Element {
    pub(super) fn attribute(&self, name: &LocalName) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(super) fn attribute_named(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| &**known == name).map(|(_, value)| &**value)
    }
}

#[derive(Debug)]
pub(super) struct Dom {
    pub(super) nodes: Vec<Node>,
}

/// Where a walk is: at the start or at the end of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Enter(NodeId),
    Leave(NodeId),
}

impl Dom {
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::new(Data::Document)] }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub(super) fn element(&self, id: NodeId) -> Option<&Element> {
        match &self.node(id).data {
            Data::Element(element) => Some(element),
            _ => None,
        }
    }

    pub(super) fn name(&self, id: NodeId) -> Option<&LocalName> {
        self.element(id).map(|element| &element.name)
    }

    pub(super) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let mut next = self.node(id).first;
        std::iter::from_fn(move || {
            let here = next;
            if here == NONE {
                return None;
            }
            next = self.node(here).next;
            Some(here)
        })
    }

    /// Walks below `root`, itself included. `enters` says whether to go into a node; a node that is not entered is not
    /// left either.
    pub(super) fn walk(&self, root: NodeId, mut visit: impl FnMut(Step) -> Into) {
        let mut here = root;
        if visit(Step::Enter(root)) == Into::Skip {
            return;
        }
        let mut descend = true;
        loop {
            let first = self.node(here).first;
            if descend && first != NONE {
                here = first;
                descend = visit(Step::Enter(here)) == Into::Children;
                continue;
            }
            if descend {
                visit(Step::Leave(here));
            }
            loop {
                if here == root {
                    return;
                }
                let next = self.node(here).next;
                if next != NONE {
                    here = next;
                    descend = visit(Step::Enter(here)) == Into::Children;
                    break;
                }
                here = self.node(here).parent;
                visit(Step::Leave(here));
            }
        }
    }

    /// What a node begins with, when that is text right at its beginning.
    pub(super) fn first_char(&self, id: NodeId) -> Option<char> {
        let mut here = id;
        loop {
            match &self.node(here).data {
                Data::Text(text) => return text.chars().next(),
                Data::Element(element) if is_unseen(&element.name) => return None,
                _ => here = self.children(here).next()?,
            }
        }
    }

    /// The last stretch of text in a node, when that is at its end.
    pub(super) fn last_text(&self, id: NodeId) -> Option<&str> {
        let mut here = id;
        loop {
            match &self.node(here).data {
                Data::Text(text) => return Some(text),
                Data::Element(element) if is_unseen(&element.name) => return None,
                _ => here = Some(self.node(here).last).filter(|last| *last != NONE)?,
            }
        }
    }

    /// All text below a node, with single spaces, up to `limit` bytes.
    pub(super) fn text(&self, root: NodeId, limit_bytes: usize) -> String {
        let mut text = String::new();
        self.walk(root, |step| {
            if let Step::Enter(id) = step
                && text.len() < limit_bytes
            {
                match &self.node(id).data {
                    Data::Text(part) => text.push_str(part),
                    Data::Element(element) if is_unseen(&element.name) => return Into::Skip,
                    Data::Element(_) => text.push(' '),
                    _ => {}
                }
            }
            Into::Children
        });
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    Children,
    Skip,
}

impl Node {
    pub(super) fn new(data: Data) -> Self {
        Self { parent: NONE, first: NONE, last: NONE, next: NONE, previous: NONE, depth: 0, data }
    }
}

/// Elements that are never text on a page.
pub(super) fn is_unseen(name: &LocalName) -> bool {
    matches!(
        *name,
        local_name!("script")
            | local_name!("style")
            | local_name!("template")
            | local_name!("head")
            | local_name!("svg")
            | local_name!("object")
            | local_name!("canvas")
            | local_name!("datalist")
    )
}
