"""What stands on each saved page, as another parser (html5lib, as browsers read) and other rules than ours find it.

Prints JSON: for each page its `runs`, stretches of text between the starts and ends of blocks, its `rows`, the cells of
each row of a table, and its `surroundings`, the runs of menus, footers and the like. Needs bs4 and html5lib.
"""

import json
import pathlib
import sys

from bs4 import BeautifulSoup, Comment, NavigableString

UNSEEN = {"script", "style", "template", "head", "noscript", "svg", "button", "select", "textarea", "math", "source"}
SURROUNDINGS = {"nav", "footer"}
# Classes and roles by which sites mark what is on every page of theirs, and offers that interrupt the text.
MARKED = {
    "cookie-consent", "consent-banner", "sidebar", "navbox", "breadcrumb", "share", "trending", "related", "tag-list",
    "newsletter", "skip-link", "ad", "catlinks", "mw-jump-link", "s-topbar", "masthead", "vector-header",
    "vector-dropdown", "toc", "printfooter", "mw-editsection", "headerlink", "viewcode-link", "wy-breadcrumbs",
    "post-taglist", "left-sidebar", "site-header", "woocommerce-ordering", "topic-category", "more-topics__list",
}
MARKED_IDS = {"nav-main", "skip", "branding", "footer", "header"}
BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "legend",
    "li", "main", "nav", "ol", "option", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th",
    "thead", "tr", "ul",
}


def is_surrounding(element):
    classes = set(element.get("class") or [])
    return element.name in SURROUNDINGS or classes & MARKED or element.get("id") in MARKED_IDS


class Page:
    def __init__(self):
        self.runs, self.surroundings, self.rows = [], [], []
        self.run = []

    def end(self, inside):
        text = " ".join("".join(self.run).split())
        self.run = []
        if text:
            (self.surroundings if inside else self.runs).append(text)

    def walk(self, element, inside):
        for child in element.children:
            if isinstance(child, Comment):
                continue
            if isinstance(child, NavigableString):
                self.run.append(str(child))
                continue
            if child.name in UNSEEN or child.get("hidden") is not None:
                # What is between two texts keeps them apart.
                self.end(inside)
                continue
            here = inside or bool(is_surrounding(child))
            is_break = child.name in BLOCKS or here != inside
            if is_break:
                self.end(inside)
            self.walk(child, here)
            if is_break:
                self.end(here)
            if child.name == "tr" and not here and not child.find("table") and not child.find_parent("tr"):
                cells = [" ".join(cell.get_text(" ").split()) for cell in child.find_all(["td", "th"])]
                cells = [cell for cell in cells if cell]
                if len(cells) > 1:
                    self.rows.append(cells)


def read(path):
    page = Page()
    page.walk(BeautifulSoup(path.read_text(), "html5lib").body, False)
    page.end(False)
    return {"runs": page.runs, "rows": page.rows, "surroundings": page.surroundings}


folder = pathlib.Path(sys.argv[1])
json.dump({path.stem: read(path) for path in sorted(folder.glob("*.html"))}, sys.stdout, ensure_ascii=False)
