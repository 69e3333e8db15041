//! From an address to text.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header;
use tokio::task::spawn_blocking;
use url::Url;

use super::documents::Wanted;
use super::html::{self, Extent, Link, Shown};
use super::kind::{Kind, kind};
use super::media::{self, Sent};
use super::{FetchError, Settings, archived, charset};
use crate::toolset::Call;
use crate::web::client::{Ask, Page};
use crate::web::robots::RobotsRule;

/// For how long a page is the same while a model pages through it.
const RECENT_FOR: Duration = Duration::from_secs(300);
/// Texts kept for that …
const MAX_RECENT: usize = 8;
/// … and what they may hold together, pictures included; the last one is kept whatever its size. A model pages through
/// one long page at a time, and a page of two megabytes takes about four here with its links.
const MAX_RECENT_BYTES: usize = 4 * 1024 * 1024;
/// The notice of the reference server for a page without content.
const EMPTY: &str = "<error>Page failed to be simplified from HTML</error>";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Readable,
    Full,
    Raw,
}

/// What is to be loaded, and how it is to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) url: Url,
    pub(super) mode: Mode,
    pub(super) wanted: Wanted,
    pub(super) robots: RobotsRule,
}

impl Wish {
    pub(super) fn new(url: Url, mode: Mode, robots: RobotsRule) -> Self {
        Self { url, mode, wanted: Wanted::default(), robots }
    }
}

/// A page or document as text.
#[derive(Debug, Clone)]
pub(super) struct Content {
    /// Where it was found in the end.
    pub(super) url: Url,
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) bytes: usize,
    /// What the reference server says before content that is not HTML.
    pub(super) prefix: String,
    pub(super) text: String,
    pub(super) title: Option<String>,
    pub(super) date: Option<String>,
    pub(super) language: Option<String>,
    pub(super) pictures: Vec<Sent>,
    pub(super) links: Vec<Link>,
    /// Parts of the page were left out.
    pub(super) is_part: bool,
    /// The part of the question that stands on it.
    pub(super) contamination: Option<String>,
}

/// What was loaded last.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<VecDeque<(Instant, Wish, Arc<Content>)>>);

impl Recent {
    pub(super) fn get(&self, wish: &Wish) -> Option<Arc<Content>> {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.iter().find(|(since, known, _)| known == wish && since.elapsed() < RECENT_FOR)?;
        Some(known.2.clone())
    }

    pub(super) fn put(&self, wish: &Wish, content: &Arc<Content>) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|(_, known, _)| known != wish);
        recent.push_back((Instant::now(), wish.clone(), content.clone()));
        let mut bytes: usize = recent.iter().map(|(_, _, content)| content.memory_bytes()).sum();
        while recent.len() > MAX_RECENT || (bytes > MAX_RECENT_BYTES && recent.len() > 1) {
            let Some((_, _, oldest)) = recent.pop_front() else { break };
            bytes -= oldest.memory_bytes();
        }
    }
}

impl Content {
    fn memory_bytes(&self) -> usize {
        let links = self.links.iter().map(|link| link.text.len() + link.url.len() + size_of::<Link>());
        let pictures = self.pictures.iter().map(|picture| picture.base64.len());
        self.text.len() + links.sum::<usize>() + pictures.sum::<usize>()
    }
}

pub(super) async fn load(
    settings: &Settings,
    wish: &Wish,
    user_agent: &str,
    call: &Call,
) -> Result<Content, FetchError> {
    call.status.set(format!("fetching {}", wish.url.host_str().unwrap_or_default()));
    let ask =
        Ask { url: wish.url.clone(), user_agent, robots: wish.robots, cancel: &call.cancel, log: &call.log };
    let page = settings.web.get(&ask).await?;
    call.status.set(format!("reading {} bytes", page.body.len()));
    let mut content = read(settings, wish, page).await?;
    if let Some(detector) = settings.integrity.detector.clone() {
        // A long page takes a processor for a moment.
        let text = std::mem::take(&mut content.text);
        let (text, found) = blocking(&wish.url, move || {
            let found = detector.find(&text);
            (text, found)
        })
        .await?;
        (content.text, content.contamination) = (text, found);
    }
    Ok(content)
}

async fn read(settings: &Settings, wish: &Wish, page: Page) -> Result<Content, FetchError> {
    let content_type = page.header(header::CONTENT_TYPE).map(ToOwned::to_owned);
    let is = kind(&page.body, content_type.as_deref(), &page.url);
    let mut content = Content {
        status: page.status.as_u16(),
        bytes: page.body.len(),
        content_type: content_type.clone().unwrap_or_default(),
        prefix: String::new(),
        text: String::new(),
        title: None,
        date: page.header(header::LAST_MODIFIED).map(ToOwned::to_owned),
        language: page.header(header::CONTENT_LANGUAGE).map(ToOwned::to_owned),
        pictures: Vec::new(),
        links: Vec::new(),
        is_part: false,
        contamination: None,
        url: page.url.clone(),
    };
    let unreadable = |reason: String| FetchError::Unreadable { url: wish.url.to_string(), reason };
    match is {
        Kind::Html if wish.mode != Mode::Raw => {
            let base = archived::original(&page.url).unwrap_or_else(|| page.url.clone());
            let extent = if wish.mode == Mode::Full { Extent::Full } else { Extent::Readable };
            let body = page.body;
            let _place = settings.converters.enter(body.len()).await;
            let readable = blocking(&wish.url, move || {
                let (text, _) = charset::decode(&body, content_type.as_deref());
                html::convert(&text, &base, extent)
            })
            .await?;
            content.is_part = readable.shown == Shown::MainContent;
            content.text =
                if readable.markdown.trim().is_empty() { EMPTY.to_owned() } else { readable.markdown };
            content.title = readable.title;
            content.date = readable.date.or(content.date);
            content.language = readable.language.or(content.language);
            content.links = readable.links;
        }
        Kind::Html | Kind::Text => {
            let body = page.body;
            let declared = content_type.clone();
            content.text =
                blocking(&wish.url, move || charset::decode(&body, declared.as_deref()).0.into_owned())
                    .await?;
            content.prefix = format!(
                "Content type {} cannot be simplified to markdown, but here is the raw content:\n",
                content_type.unwrap_or_default()
            );
        }
        Kind::Document(document) => {
            let read = settings.worker.read(document, page.body, wish.wanted).await.map_err(unreadable)?;
            content.text =
                if read.text.is_empty() { "[the document holds no text]".to_owned() } else { read.text };
            content.title = read.title;
            content.date = read.date.or(content.date);
            content.pictures = read
                .pictures
                .into_iter()
                .map(|picture| Sent { media_type: "image/jpeg", base64: picture.base64, width: 0, height: 0 })
                .collect();
        }
        Kind::Image(found) => {
            let body = page.body.clone();
            let sent =
                blocking(&wish.url, move || media::picture(&body, found)).await?.map_err(unreadable)?;
            content.text = format!(
                "[a picture: {found}, {} x {} pixels, {} bytes]",
                sent.width, sent.height, content.bytes
            );
            content.pictures.push(sent);
        }
        Kind::Audio => content.text = saved(settings, &page, "a sound recording"),
        Kind::Video => content.text = saved(settings, &page, "a video"),
        Kind::Binary => {
            content.text = saved(settings, &page, "a file that is neither text nor a known document")
        }
    }
    Ok(content)
}

/// What is said of a file that cannot be shown.
fn saved(settings: &Settings, page: &Page, what: &str) -> String {
    let mut text = format!("[{what}, {} bytes", page.body.len());
    if let Some(sound) = media::describe_sound(&page.body) {
        text.push_str(&format!(", {sound}"));
    }
    match settings.downloads.save(&page.url, &page.body) {
        Ok(Some(path)) => {
            text.push_str(&format!("; saved as {}, for other tools to work on]", path.display()))
        }
        Ok(None) => text.push_str("; it was not saved: this server has no --save-dir]"),
        Err(error) => text.push_str(&format!("; it could not be saved: {error}]")),
    }
    text
}

/// On a thread that may compute.
async fn blocking<T: Send + 'static>(
    url: &Url,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, FetchError> {
    spawn_blocking(work).await.map_err(|_crashed| FetchError::Unreadable {
        url: url.to_string(),
        reason: "the converter crashed on it; try mode=\"raw\"".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> Arc<Content> {
        Arc::new(Content {
            url: Url::parse("http://a.example/").unwrap(),
            status: 200,
            content_type: String::new(),
            bytes: 0,
            prefix: String::new(),
            text: text.to_owned(),
            title: None,
            date: None,
            language: None,
            pictures: Vec::new(),
            links: Vec::new(),
            is_part: false,
            contamination: None,
        })
    }

    #[test]
    fn what_was_loaded_last_is_bounded_in_number_and_in_bytes() {
        let recent = Recent::default();
        let wish = |number: usize| {
            let url = Url::parse(&format!("http://a.example/{number}")).unwrap();
            Wish::new(url, Mode::Readable, RobotsRule::Ignore)
        };
        let kept = |recent: &Recent| -> Vec<usize> {
            (0..20).filter(|number| recent.get(&wish(*number)).is_some()).collect()
        };
        (0..10).for_each(|number| recent.put(&wish(number), &content("short")));
        assert_eq!(kept(&recent), [2, 3, 4, 5, 6, 7, 8, 9]);
        let third = "x".repeat(MAX_RECENT_BYTES / 3);
        (10..14).for_each(|number| recent.put(&wish(number), &content(&third)));
        assert_eq!(kept(&recent), [11, 12, 13]);
        recent.put(&wish(14), &content(&"x".repeat(MAX_RECENT_BYTES * 2)));
        assert_eq!(kept(&recent), [14], "the model may page through it");
    }
}
