//! Builds the tree with html5ever, which reads broken pages as browsers do. A page that would take it too long is given
//! up.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::{Attribute, ExpandedName, LocalName, ParseOpts, QualName, local_name, ns, parse_document};

use super::dom::{DOCUMENT, Data, Dom, Element, NONE, Node, NodeId};
use super::embedded;

/// Deeper pages are attacks or accidents: the parser's work grows with the square of the depth.
const MAX_DEPTH: u32 = 1_000;
/// Nodes of a page of some ten megabytes; a node takes about 70 bytes.
const MAX_NODES: usize = 4_000_000;
/// A page of two megabytes takes a twentieth of a second; what takes so long was made for it. Without optimisation
/// everything takes a hundred times as long, and an honest page would lose its tables.
const MAX_TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });
/// Between two looks at the limits.
const CHUNK_BYTES: usize = 8 * 1024;
/// Of data that a page carries for its scripts.
const MAX_SCRIPT_BYTES: usize = 400 * 1024;

/// `None` when the page is too deep, too large or too slow for a tree.
pub(super) fn parse(html: &str) -> Option<Dom> {
    let started = Instant::now();
    let sink = Sink { dom: RefCell::new(Dom::new()), deepest: Cell::new(0) };
    let mut options = ParseOpts::default();
    // We run no scripts, so what is there for readers without them is meant for us.
    options.tree_builder.scripting_enabled = false;
    let mut parser = parse_document(sink, options);
    let mut rest = html;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES.min(rest.len())));
        parser.process(StrTendril::from_slice(chunk));
        rest = after;
        let sink = &parser.tokenizer.sink.sink;
        let is_too_much = sink.deepest.get() > MAX_DEPTH
            || sink.dom.borrow().nodes.len() > MAX_NODES
            || started.elapsed() > MAX_TIME;
        if is_too_much {
            return None;
        }
    }
    Some(parser.finish())
}

struct Sink {
    dom: RefCell<Dom>,
    deepest: Cell<u32>,
}

/// A node with the name that the parser keeps asking for.
#[derive(Debug, Clone)]
struct Handle {
    id: NodeId,
    name: Option<Rc<QualName>>,
}

impl Handle {
    fn bare(id: NodeId) -> Self {
        Self { id, name: None }
    }
}

const NO_NAME: ExpandedName<'static> = ExpandedName { ns: &ns!(), local: &local_name!("") };

impl Sink {
    fn add(&self, data: Data) -> NodeId {
        let nodes = &mut self.dom.borrow_mut().nodes;
        nodes.push(Node::new(data));
        // MAX_NODES keeps it far below.
        (nodes.len() - 1) as NodeId
    }

    fn node_of(&self, child: NodeOrText<Handle>) -> NodeId {
        match child {
            NodeOrText::AppendNode(node) => node.id,
            NodeOrText::AppendText(text) => self.add(Data::Text(text)),
        }
    }

    /// Puts a node before `sibling`, or at the end when that is none.
    fn insert(&self, parent: NodeId, child: NodeId, sibling: NodeId) {
        let mut dom = self.dom.borrow_mut();
        detach(&mut dom.nodes, child);
        let depth = dom.node(parent).depth + 1;
        self.deepest.set(self.deepest.get().max(depth));
        let previous = if sibling == NONE { dom.node(parent).last } else { dom.node(sibling).previous };
        let nodes = &mut dom.nodes;
        let node = &mut nodes[child as usize];
        (node.parent, node.previous, node.next, node.depth) = (parent, previous, sibling, depth);
        match previous {
            NONE => nodes[parent as usize].first = child,
            _ => nodes[previous as usize].next = child,
        }
        match sibling {
            NONE => nodes[parent as usize].last = child,
            _ => nodes[sibling as usize].previous = child,
        }
    }

    /// Text is joined to text before it.
    fn extend_text(&self, at: NodeId, text: &StrTendril) -> bool {
        let mut dom = self.dom.borrow_mut();
        if at == NONE {
            return false;
        }
        match &mut dom.nodes[at as usize].data {
            Data::Text(before) => {
                before.push_tendril(text);
                true
            }
            _ => false,
        }
    }

    /// Programs are dropped as they come in; data for them may be all that a page has to say.
    fn is_dropped(&self, parent: NodeId, text: &StrTendril) -> bool {
        let dom = self.dom.borrow();
        let Some(element) = dom.element(parent) else { return false };
        match element.name {
            local_name!("style") => true,
            local_name!("script") => {
                let kind = element.attribute(&local_name!("type")).unwrap_or_default();
                let may_be_data = kind.ends_with("json") || embedded::is_assignment(text);
                // A script comes in pieces; its beginning says what it is.
                let is_begun = dom.node(parent).first != NONE;
                !(may_be_data || is_begun) || text.len() > MAX_SCRIPT_BYTES
            }
            _ => false,
        }
    }
}

fn detach(nodes: &mut [Node], id: NodeId) {
    let Node { parent, previous, next, .. } = nodes[id as usize];
    if parent == NONE && previous == NONE && next == NONE && nodes[DOCUMENT as usize].first != id {
        return;
    }
    match previous {
        NONE => nodes[parent as usize].first = next,
        _ => nodes[previous as usize].next = next,
    }
    match next {
        NONE => nodes[parent as usize].last = previous,
        _ => nodes[next as usize].previous = previous,
    }
    let node = &mut nodes[id as usize];
    (node.parent, node.previous, node.next) = (NONE, NONE, NONE);
}

fn kept(attributes: Vec<Attribute>) -> Vec<(LocalName, StrTendril)> {
    let is_looked_at = |name: &LocalName| {
        matches!(
            &**name,
            "alt"
                | "alttext"
                | "aria-hidden"
                | "aria-label"
                | "class"
                | "colspan"
                | "content"
                | "datetime"
                | "hidden"
                | "href"
                | "id"
                | "itemprop"
                | "lang"
                | "name"
                | "property"
                | "role"
                | "rowspan"
                | "src"
                | "start"
                | "style"
                | "title"
                | "type"
                | "value"
                | "data-src"
                | "checked"
                | "open"
                | "label"
        )
    };
    attributes
        .into_iter()
        .filter(|attribute| is_looked_at(&attribute.name.local))
        .map(|attribute| (attribute.name.local, attribute.value))
        .collect()
}

impl TreeSink for Sink {
    type Handle = Handle;
    type Output = Dom;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Dom {
        self.dom.into_inner()
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        Handle::bare(DOCUMENT)
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        target.name.as_ref().map_or(NO_NAME, |name| name.expanded())
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _flags: ElementFlags) -> Handle {
        let element =
            Element { name: name.local.clone(), is_html: name.ns == ns!(html), attributes: kept(attributes) };
        Handle { id: self.add(Data::Element(Box::new(element))), name: Some(Rc::new(name)) }
    }

    fn create_comment(&self, _text: StrTendril) -> Handle {
        Handle::bare(self.add(Data::Other))
    }

    fn create_pi(&self, _target: StrTendril, _data: StrTendril) -> Handle {
        Handle::bare(self.add(Data::Other))
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        if let NodeOrText::AppendText(text) = &child {
            let last = self.dom.borrow().node(parent.id).last;
            if self.is_dropped(parent.id, text) || self.extend_text(last, text) {
                return;
            }
        }
        let child = self.node_of(child);
        self.insert(parent.id, child, NONE);
    }

    fn append_based_on_parent_node(&self, element: &Handle, previous: &Handle, child: NodeOrText<Handle>) {
        if self.dom.borrow().node(element.id).parent == NONE {
            self.append(previous, child);
        } else {
            self.append_before_sibling(element, child);
        }
    }

    fn append_doctype_to_document(&self, _name: StrTendril, _public: StrTendril, _system: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        // What is in a template is not on the page: it hangs below the template, which nobody walks into.
        Handle::bare(target.id)
    }

    fn same_node(&self, one: &Handle, other: &Handle) -> bool {
        one.id == other.id
    }

    fn set_quirks_mode(&self, _mode: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Handle, child: NodeOrText<Handle>) {
        let (parent, previous) = {
            let dom = self.dom.borrow();
            (dom.node(sibling.id).parent, dom.node(sibling.id).previous)
        };
        if let NodeOrText::AppendText(text) = &child
            && self.extend_text(previous, text)
        {
            return;
        }
        let child = self.node_of(child);
        self.insert(parent, child, sibling.id);
    }

    fn add_attrs_if_missing(&self, target: &Handle, attributes: Vec<Attribute>) {
        let mut dom = self.dom.borrow_mut();
        if let Data::Element(element) = &mut dom.nodes[target.id as usize].data {
            for (name, value) in kept(attributes) {
                if element.attribute(&name).is_none() {
                    element.attributes.push((name, value));
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &Handle) {
        detach(&mut self.dom.borrow_mut().nodes, target.id);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        loop {
            let child = self.dom.borrow().node(node.id).first;
            if child == NONE {
                return;
            }
            self.insert(new_parent.id, child, NONE);
        }
    }
}
