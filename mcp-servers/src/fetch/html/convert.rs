//! Writes Markdown while it walks over the tree.

use std::collections::HashSet;

use html5ever::{LocalName, local_name};
use url::Url;

use super::Link;
use super::blocks::{block_breaks, heading_level, is_block, is_phrase};
use super::dom::{Data, Dom, Element, Into, NodeId, Step};
use super::inline::{Buffer, Lines};
use super::select::Selection;
use super::table::{Cell, Table, data_tables};

/// Links remembered of one page.
const MAX_LINKS: usize = 20_000;
/// A longer address is data.
const MAX_ADDRESS_BYTES: usize = 2_000;

pub(super) struct Converted {
    pub(super) text: String,
    pub(super) links: Vec<Link>,
}

pub(super) fn markdown(dom: &Dom, selection: &Selection, base: &Url) -> Converted {
    let mut writer = Writer {
        dom,
        base,
        page: base.as_str().split('#').next().unwrap_or_default().to_owned(),
        data_tables: data_tables(dom, selection),
        buffers: vec![Buffer::new(Lines::Many)],
        tables: Vec::new(),
        lists: Vec::new(),
        open: Vec::new(),
        seam: None,
        verbatim: 0,
        links: Vec::new(),
    };
    dom.walk(selection.root, |step| match step {
        Step::Enter(id) if selection.skips(id) => Into::Skip,
        Step::Enter(id) => writer.enter(id),
        Step::Leave(id) => {
            writer.leave(id);
            Into::Children
        }
    });
    let text = writer.buffers.drain(..).map(Buffer::finish).collect::<Vec<_>>().join("\n\n");
    // What is kept for a while has no room to grow.
    writer.links.shrink_to_fit();
    Converted { text, links: writer.links }
}

struct Writer<'a> {
    dom: &'a Dom,
    base: &'a Url,
    /// The address without its fragment: links into the page itself are only text.
    page: String,
    data_tables: HashSet<NodeId>,
    /// The innermost is written to: the page, a cell, a heading.
    buffers: Vec<Buffer>,
    tables: Vec<Table>,
    lists: Vec<List>,
    /// Marks whose end depends on what comes between: where they stand in the buffer.
    open: Vec<Open>,
    /// Where a phrase ended that the next may be glued to: the number of buffers, and the length of the innermost.
    seam: Option<(usize, usize)>,
    /// How many `<pre>` we are in.
    verbatim: u32,
    links: Vec<Link>,
}

enum List {
    Bullets,
    Numbers(u64),
}

struct Open {
    id: NodeId,
    /// Length of the buffer before and behind the mark.
    before: usize,
    behind: usize,
    buffer: usize,
    end: End,
}

enum End {
    Mark(&'static str),
    Link(String),
}

impl Writer<'_> {
    fn buffer(&mut self) -> &mut Buffer {
        if self.buffers.is_empty() {
            self.buffers.push(Buffer::new(Lines::Many));
        }
        let last = self.buffers.len() - 1;
        &mut self.buffers[last]
    }

    fn enter(&mut self, id: NodeId) -> Into {
        let dom = self.dom;
        match &dom.node(id).data {
            Data::Text(text) if self.verbatim > 0 => self.buffer().verbatim(text),
            Data::Text(text) => self.buffer().words(text),
            Data::Element(element) => return self.enter_element(id, element),
            Data::Document | Data::Other => {}
        }
        Into::Children
    }

    fn enter_element(&mut self, id: NodeId, element: &Element) -> Into {
        if self.verbatim == 0 && is_phrase(&element.name) {
            self.keep_apart(id);
        }
        match element.name {
            local_name!("br") => self.buffer().break_lines(1),
            local_name!("hr") => {
                self.buffer().break_lines(2);
                self.buffer().opening("---");
                self.buffer().break_lines(2);
            }
            local_name!("wbr") => {}
            local_name!("img") => self.image(element),
            local_name!("input") => self.input(element),
            local_name!("iframe") | local_name!("video") | local_name!("audio") | local_name!("embed") => {
                self.embedded(element);
                return Into::Skip;
            }
            local_name!("a") => self.begin_link(id, element),
            local_name!("strong") | local_name!("b") => self.begin_mark(id, "**"),
            local_name!("em") | local_name!("i") => self.begin_mark(id, "*"),
            local_name!("code") | local_name!("kbd") | local_name!("samp") if self.verbatim == 0 => {
                self.begin_mark(id, "`");
            }
            local_name!("del") | local_name!("s") => self.begin_mark(id, "~~"),
            local_name!("sup") if self.is_exponent(id) => self.begin(id, "^", End::Mark("")),
            local_name!("math") => return self.formula(element),
            local_name!("pre") => self.begin_verbatim(id),
            local_name!("blockquote") => {
                self.buffer().break_lines(2);
                self.buffer().opening("> ");
                self.buffer().push_prefix("> ");
                self.buffer().begin_block();
            }
            local_name!("ul") | local_name!("menu") => self.begin_list(List::Bullets),
            local_name!("ol") => {
                let start = element.attribute(&local_name!("start")).and_then(|start| start.parse().ok());
                self.begin_list(List::Numbers(start.unwrap_or(1)));
            }
            local_name!("li") => self.begin_item(),
            local_name!("dd") => {
                self.buffer().break_lines(1);
                self.buffer().opening(": ");
                self.buffer().begin_block();
            }
            local_name!("table") if self.data_tables.contains(&id) => self.tables.push(Table::default()),
            local_name!("tr") if self.in_data_table(id) => {
                self.tables.last_mut().into_iter().for_each(Table::begin_row);
            }
            local_name!("td") | local_name!("th") | local_name!("caption") if self.in_data_table(id) => {
                self.buffers.push(Buffer::new(Lines::One));
            }
            _ if heading_level(&element.name).is_some() => {
                self.buffer().break_lines(2);
                self.buffers.push(Buffer::new(Lines::One));
            }
            _ if is_block(&element.name) => self.buffer().break_lines(block_breaks(&element.name)),
            _ => {}
        }
        Into::Children
    }

    /// `<time>2021-03-02</time><span>1</span>` stands apart on the page by its style, and would read as 2021-03-021.
    fn keep_apart(&mut self, id: NodeId) {
        let here = (self.buffers.len(), self.buffer().text.len());
        if self.seam == Some(here)
            && self.dom.first_char(id).is_some_and(|first| first.is_ascii_alphanumeric())
        {
            self.buffer().words(" ");
        }
    }

    fn leave(&mut self, id: NodeId) {
        let Data::Element(element) = &self.dom.node(id).data else { return };
        self.leave_element(id, element);
        // Letters one by one are a word in a costume.
        let is_seam = |text: &str| {
            let mut letters = text.chars().rev();
            let last = letters.next().unwrap_or(' ');
            last.is_ascii_digit() || last == ')' || (last.is_ascii_alphabetic() && letters.next().is_some())
        };
        if is_phrase(&element.name) && self.dom.last_text(id).is_some_and(is_seam) {
            self.seam = Some((self.buffers.len(), self.buffer().text.len()));
        }
    }

    fn leave_element(&mut self, id: NodeId, element: &Element) {
        match element.name {
            local_name!("a")
            | local_name!("strong")
            | local_name!("b")
            | local_name!("em")
            | local_name!("i")
            | local_name!("code")
            | local_name!("kbd")
            | local_name!("samp")
            | local_name!("del")
            | local_name!("s")
            | local_name!("sup") => self.end_mark(id),
            local_name!("pre") => {
                self.verbatim -= 1;
                self.buffer().verbatim("\n```");
                self.buffer().break_lines(2);
            }
            local_name!("blockquote") => {
                self.buffer().pop_prefix();
                self.buffer().break_lines(2);
            }
            local_name!("ul") | local_name!("ol") | local_name!("menu") => {
                self.lists.pop();
                let breaks = if self.lists.is_empty() { 2 } else { 1 };
                self.buffer().break_lines(breaks);
            }
            local_name!("li") => {
                self.buffer().pop_prefix();
                self.buffer().break_lines(1);
            }
            local_name!("table") if self.data_tables.contains(&id) => self.end_table(),
            local_name!("td") | local_name!("th") if self.in_data_table(id) => self.end_cell(element),
            local_name!("caption") if self.in_data_table(id) => {
                let caption = self.pop_buffer();
                self.tables.last_mut().into_iter().for_each(|table| table.caption = caption.clone());
            }
            _ => {
                if let Some(level) = heading_level(&element.name) {
                    let text = self.pop_buffer().replace("<br>", " ");
                    if !text.is_empty() {
                        self.buffer().opening(&"######"[..level]);
                        self.buffer().closing(" ");
                        self.buffer().closing(&text.replace("\\|", "|"));
                    }
                    self.buffer().break_lines(2);
                } else if is_block(&element.name) {
                    self.buffer().break_lines(block_breaks(&element.name));
                }
            }
        }
    }

    fn pop_buffer(&mut self) -> String {
        let depth = self.buffers.len();
        // Marks that a broken page left open end with their buffer.
        self.open.retain(|open| open.buffer < depth);
        if depth > 1 { self.buffers.pop().map(Buffer::finish).unwrap_or_default() } else { String::new() }
    }

    fn begin_mark(&mut self, id: NodeId, mark: &'static str) {
        if self.verbatim > 0 {
            return;
        }
        self.begin(id, mark, End::Mark(mark));
    }

    /// 10 to the 6th must not read as 106; notes and ordinals need no mark.
    fn is_exponent(&self, id: NodeId) -> bool {
        let start = self.dom.text(id, 16).chars().next();
        start.is_some_and(|start| start.is_ascii_digit() || "-−+".contains(start))
    }

    fn begin(&mut self, id: NodeId, mark: &str, end: End) {
        self.buffer().open();
        let before = self.buffer().text.len();
        self.buffer().opening(mark);
        // What comes next stands right behind the mark.
        self.buffer().begin_block();
        let behind = self.buffer().text.len();
        let buffer = self.buffers.len();
        self.open.push(Open { id, before, behind, buffer, end });
    }

    fn end_mark(&mut self, id: NodeId) {
        if self.open.last().is_none_or(|open| open.id != id) {
            return;
        }
        let Some(open) = self.open.pop() else { return };
        if open.buffer != self.buffers.len() || open.behind > self.buffer().text.len() {
            return;
        }
        let buffer = self.buffer();
        if buffer.text.len() == open.behind {
            buffer.take_back(open.before);
            return;
        }
        match open.end {
            End::Mark(mark) => buffer.closing(mark),
            End::Link(address) => {
                let inner = buffer.text[open.behind..].trim();
                // A block inside of a link: its lines would break the mark.
                let inner = if inner.contains('\n') {
                    inner.split_whitespace().collect::<Vec<_>>().join(" ")
                } else {
                    inner.to_owned()
                };
                buffer.text.truncate(open.behind);
                buffer.closing(&inner);
                buffer.closing("](");
                buffer.closing(&address);
                buffer.closing(")");
                if self.links.len() < MAX_LINKS {
                    self.links.push(Link { text: inner, url: address });
                }
            }
        }
    }

    fn begin_link(&mut self, id: NodeId, element: &Element) {
        let address = element.attribute(&local_name!("href")).and_then(|href| self.address(href));
        if let Some(address) = address.filter(|_| self.verbatim == 0) {
            self.begin(id, "[", End::Link(address));
        }
    }

    /// Absolute, if it leads anywhere but into this page.
    fn address(&self, written: &str) -> Option<String> {
        let written = written.trim();
        if written.len() > MAX_ADDRESS_BYTES || written.starts_with('#') {
            return None;
        }
        let address = self.base.join(written).ok()?;
        let leads_somewhere = matches!(address.scheme(), "http" | "https" | "mailto" | "ftp");
        let into_page =
            address.fragment().is_some() && address.as_str().split('#').next() == Some(&self.page);
        // Parentheses would end the mark.
        let text = String::from(address);
        let text =
            if text.contains(['(', ')']) { text.replace('(', "%28").replace(')', "%29") } else { text };
        (leads_somewhere && !into_page).then_some(text)
    }

    fn image(&mut self, element: &Element) {
        let alt = element.attribute(&local_name!("alt")).unwrap_or_default().trim();
        let source = element.attribute_named("data-src").or_else(|| element.attribute(&local_name!("src")));
        if alt.is_empty() || self.verbatim > 0 {
            return;
        }
        match source.filter(|source| !source.starts_with("data:")).and_then(|source| self.address(source)) {
            Some(address) => {
                self.buffer().opening("![");
                self.buffer().begin_block();
                self.buffer().words(alt);
                self.buffer().closing(&format!("]({address})"));
            }
            None => self.buffer().words(alt),
        }
    }

    fn input(&mut self, element: &Element) {
        match element.attribute(&local_name!("type")) {
            Some("checkbox" | "radio") => {
                let is_checked = element.attribute_named("checked").is_some();
                self.buffer().opening(if is_checked { "[x]" } else { "[ ]" });
            }
            Some("hidden" | "submit" | "button" | "password" | "image") => {}
            _ => {
                let value = element.attribute(&local_name!("value")).unwrap_or_default();
                self.buffer().words(value);
            }
        }
    }

    /// What plays in a frame is reached by its address.
    fn embedded(&mut self, element: &Element) {
        let source = element.attribute(&local_name!("src")).and_then(|source| self.address(source));
        let Some(address) = source.filter(|_| self.verbatim == 0) else { return };
        let title = element.attribute(&local_name!("title")).unwrap_or_default().trim().to_owned();
        let title = if title.is_empty() { element.name.to_string() } else { title };
        self.buffer().break_lines(1);
        self.buffer().opening(&format!("[{title}]({address})"));
        self.buffer().break_lines(1);
        self.links.push(Link { text: title, url: address });
    }

    /// Formulas carry their source in TeX, which is shorter and clearer than their parts.
    fn formula(&mut self, element: &Element) -> Into {
        match element.attribute_named("alttext") {
            Some(source) => {
                self.buffer().opening(&format!("${source}$"));
                Into::Skip
            }
            None => Into::Children,
        }
    }

    fn begin_verbatim(&mut self, id: NodeId) {
        self.buffer().break_lines(2);
        let language = self.language_of(id).unwrap_or_default();
        self.buffer().opening(&format!("```{language}"));
        self.buffer().verbatim("\n");
        self.verbatim += 1;
    }

    /// `class="language-rust"` of a block of code or of the code in it.
    fn language_of(&self, id: NodeId) -> Option<String> {
        let classes = std::iter::once(id)
            .chain(self.dom.children(id))
            .filter_map(|id| self.dom.element(id)?.attribute(&local_name!("class")));
        let language = classes
            .flat_map(str::split_whitespace)
            .find_map(|class| class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-")))?;
        let is_plain = |character: char| character.is_ascii_alphanumeric() || "+#-".contains(character);
        language.chars().all(is_plain).then(|| language.to_owned())
    }

    fn begin_list(&mut self, list: List) {
        let breaks = if self.lists.is_empty() { 2 } else { 1 };
        self.lists.push(list);
        self.buffer().break_lines(breaks);
    }

    fn begin_item(&mut self) {
        self.buffer().break_lines(1);
        match self.lists.last_mut() {
            Some(List::Numbers(next)) => {
                let marker = format!("{next}. ");
                *next = next.saturating_add(1);
                self.buffer().opening(&marker);
                self.buffer().push_prefix("   ");
            }
            Some(List::Bullets) | None => {
                self.buffer().opening("- ");
                self.buffer().push_prefix("  ");
            }
        }
        self.buffer().begin_block();
    }

    /// Whether the table that a cell, a row or a caption stands in is one of data.
    fn in_data_table(&self, id: NodeId) -> bool {
        let mut here = self.dom.node(id).parent;
        while let Some(name) = self.dom.name(here) {
            if *name == local_name!("table") {
                return self.data_tables.contains(&here);
            }
            here = self.dom.node(here).parent;
        }
        false
    }

    fn end_cell(&mut self, element: &Element) {
        let span =
            |name: LocalName| element.attribute(&name).and_then(|span| span.trim().parse().ok()).unwrap_or(1);
        let cell = Cell {
            text: self.pop_buffer(),
            columns: span(local_name!("colspan")),
            rows: span(local_name!("rowspan")),
            is_heading: element.name == local_name!("th"),
        };
        self.tables
            .last_mut()
            .into_iter()
            .for_each(|table| table.add(Cell { text: cell.text.clone(), ..cell }));
    }

    fn end_table(&mut self) {
        let Some(table) = self.tables.pop() else { return };
        let caption = table.caption.clone();
        let lines = table.lines();
        self.buffer().break_lines(2);
        if !caption.is_empty() {
            self.buffer().opening(&caption.replace("<br>", " "));
            self.buffer().break_lines(2);
        }
        if !lines.is_empty() {
            self.buffer().open();
            self.buffer().verbatim(&lines.join("\n"));
        }
        self.buffer().break_lines(2);
    }
}
