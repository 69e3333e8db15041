use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};

use crate::page::{Reach, Shell, styled_document};

const SCRIPT: &str = include_str!("view.js");
const STYLE: &str = include_str!("view.css");

/// A page of ours.
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    /// The way to here; the last one is where Esc leads.
    pub(super) crumbs: Vec<Crumb>,
    /// Where the search box sends what is typed.
    pub(super) search: Option<Search>,
    pub(super) liveness: Liveness,
    pub(super) body: Markup,
}

pub(super) struct Crumb {
    pub(super) href: String,
    pub(super) label: String,
}

pub(super) struct Search {
    pub(super) action: String,
    pub(super) hint: &'static str,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    Still,
    /// Of a run that is being worked on. The page is read again every now and then, and what changed is put in its place.
    Live,
    /// The same until everything is read that is to be shown.
    Reading,
}

/// The list of all runs.
pub(super) fn home() -> Crumb {
    Crumb { href: "/".to_owned(), label: "runs".to_owned() }
}

impl IntoResponse for Page<'_> {
    fn into_response(self) -> Response {
        let up = self.crumbs.last().map(|crumb| crumb.href.clone());
        let bar = html! {
            nav.crumbs aria-label="where this is" {
                @for crumb in &self.crumbs { a href=(crumb.href) { (crumb.label) } span.muted { " / " } }
            }
            @if let Some(search) = &self.search {
                form.search action=(search.action) role="search" {
                    input #search type="search" name="q" value=(search.text) placeholder=(search.hint) aria-label=(search.hint);
                }
            }
            @match self.liveness {
                Liveness::Still => {}
                Liveness::Live => span.badge.good title="this page follows the run" { "live" },
                Liveness::Reading => span.badge title="this page is read again" { "reading" },
            }
        };
        let body = html! {
            div #page data-up=[up] data-live[self.liveness != Liveness::Still] { (self.body) }
            (help())
        };
        let shell = Shell { title: self.title, reach: Reach::Origin, script: SCRIPT, bar, body };
        let page = styled_document(&shell, STYLE).into_string();
        let headers = [
            (header::CACHE_CONTROL, "no-store"),
            // The rest of the policy stands in the page; this part must be a header.
            (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
        ];
        (headers, Html(page)).into_response()
    }
}

fn help() -> Markup {
    let keys = [
        ("j  k", "next and previous row or turn"),
        ("Enter", "open it"),
        ("Esc", "back up"),
        ("n  p", "next and previous sample"),
        ("/", "search"),
        ("?", "this list"),
    ];
    html! {
        dialog #help aria-label="keys" {
            h2 { "Keys" }
            dl.facts { @for (key, what) in keys { dt { kbd { (key) } } dd { (what) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}
