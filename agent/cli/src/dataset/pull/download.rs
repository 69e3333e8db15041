//! One request after the other until a file is here and whole.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Response, StatusCode, Url};
use tokio::io::AsyncWriteExt;

use super::{Entry, PullError, Site, Step};

/// Tries in a row that bring nothing before a file is given up. Each byte that arrives starts the count anew.
const MAX_FRUITLESS_TRIES: u32 = 6;

/// Pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 500 });

/// Longest pause, also when the hub asks for more: a person is waiting.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// A hub that says nothing for so long is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// Most bytes of a page of a list. GAIA's whole list has about 40 KB.
const MAX_PAGE_BYTES: usize = 16 << 20;

/// Most characters of a hub's own words in an error.
const MAX_SAID_CHARACTERS: usize = 300;

pub(super) struct Downloader<'a> {
    client: Client,
    site: &'a Site,
    tell: &'a (dyn Fn(Step<'_>) + Sync),
}

/// A page of a list.
pub(super) struct Page {
    pub(super) body: Vec<u8>,
    /// Where the list goes on, by the header `Link`.
    pub(super) next: Option<Url>,
}

/// How a request ended that may be worth another try.
enum Failure {
    /// Another try cannot help.
    Final(PullError),
    /// After a pause, which the hub may have named.
    Passing {
        reason: String,
        pause: Option<Duration>,
    },
    Damaged(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Final(error.into())
    }
}

impl<'a> Downloader<'a> {
    pub(super) fn new(site: &'a Site, tell: &'a (dyn Fn(Step<'_>) + Sync)) -> Result<Self, PullError> {
        let client = Client::builder()
            .user_agent(concat!("gaia/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(SILENCE_LIMIT)
            // What is counted, resumed and verified are the bytes of the file.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .build()
            .map_err(|error| PullError::Transfer {
                site: site.to_string(),
                what: "the first request".to_owned(),
                reason: reason(&error),
            })?;
        Ok(Self { client, site, tell })
    }

    /// A page of a list.
    pub(super) async fn page(&self, url: Url, what: &str) -> Result<Page, PullError> {
        let mut tries = Tries::default();
        loop {
            match self.try_page(&url, what).await {
                Ok(page) => return Ok(page),
                Err(failure) => self.pause_after(failure, what, &mut tries).await?,
            }
        }
    }

    async fn try_page(&self, url: &Url, what: &str) -> Result<Page, Failure> {
        let mut response = self.ask(url, what, HeaderMap::new()).await?;
        let next = response
            .headers()
            .get_all(header::LINK)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .find_map(|value| next_link(url, value));
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| passing(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_PAGE_BYTES {
                let reason = format!("is longer than {MAX_PAGE_BYTES} bytes");
                return Err(Failure::Final(PullError::BadList { site: self.site.to_string(), reason }));
            }
        }
        Ok(Page { body, next })
    }

    /// Brings a file, unless it is there and whole already.
    pub(super) async fn fetch(&self, entry: &Entry, folder: &Path) -> Result<(), PullError> {
        let target = folder.join(&entry.path);
        if is_whole(entry, &target)?.is_ok() {
            self.tell_bytes(entry.bytes);
            (self.tell)(Step::Finished(&entry.path));
            return Ok(());
        }
        if let Some(parent) = target.parent() {
            fs_err::create_dir_all(parent)?;
        }
        let part = part_of(&target);
        let mut here = fs_err::metadata(&part).map_or(0, |metadata| metadata.len());
        self.tell_bytes(here);
        let mut tries = Tries::default();
        loop {
            let before = here;
            let ended = self.go_on(entry, &part, &mut here).await;
            if here > before {
                tries.fruitless = 0;
            }
            match ended {
                Ok(()) => break,
                Err(failure) => {
                    if let Failure::Damaged(_) = failure {
                        fs_err::remove_file(&part)?;
                        (self.tell)(Step::Bytes(-(here as i64)));
                        here = 0;
                    }
                    self.pause_after(failure, &entry.path, &mut tries).await?;
                }
            }
        }
        fs_err::rename(&part, &target)?;
        (self.tell)(Step::Finished(&entry.path));
        Ok(())
    }

    /// Takes up a part where it ends and checks the whole.
    async fn go_on(&self, entry: &Entry, part: &Path, here: &mut u64) -> Result<(), Failure> {
        if *here > entry.bytes {
            return Err(Failure::Damaged(format!("{} bytes and not {}", here, entry.bytes)));
        }
        if *here < entry.bytes || entry.bytes == 0 {
            self.receive(entry, part, here).await?;
        }
        match is_whole(entry, part)? {
            Ok(()) => Ok(()),
            Err(difference) => Err(Failure::Damaged(difference)),
        }
    }

    async fn receive(&self, entry: &Entry, part: &Path, here: &mut u64) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        if *here > 0
            && let Ok(range) = format!("bytes={here}-").parse()
        {
            headers.insert(header::RANGE, range);
        }
        let mut response = self.ask(&self.site.file(&entry.path), &entry.path, headers).await?;
        // A hub that does not know ranges, or begins elsewhere, sends the file from its start.
        let begins_here =
            response.status() == StatusCode::PARTIAL_CONTENT && range_start(&response) == Some(*here);
        if response.status() == StatusCode::PARTIAL_CONTENT && !begins_here {
            return Err(Failure::Damaged("the hub sent another part than was asked for".to_owned()));
        }
        let mut file = tokio::fs::OpenOptions::new().create(true).append(true).open(part).await?;
        if !begins_here {
            file.set_len(0).await?;
            (self.tell)(Step::Bytes(-(*here as i64)));
            *here = 0;
        }
        let ended = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => self.keep(entry, &mut file, &chunk, here).await?,
                Ok(None) => break Ok(()),
                Err(error) => break Err(passing(&error)),
            }
        };
        file.sync_all().await?;
        ended?;
        if *here < entry.bytes {
            let reason = format!("it ended after {here} of {} bytes", entry.bytes);
            return Err(Failure::Passing { reason, pause: None });
        }
        Ok(())
    }

    async fn keep(
        &self,
        entry: &Entry,
        file: &mut tokio::fs::File,
        chunk: &Bytes,
        here: &mut u64,
    ) -> Result<(), Failure> {
        if *here + chunk.len() as u64 > entry.bytes {
            return Err(Failure::Damaged(format!("more than the {} bytes that are listed", entry.bytes)));
        }
        file.write_all(chunk).await?;
        // Counted when it is in the file: what is only buffered would be lost with us.
        file.flush().await?;
        *here += chunk.len() as u64;
        self.tell_bytes(chunk.len() as u64);
        Ok(())
    }

    async fn ask(&self, url: &Url, what: &str, headers: HeaderMap) -> Result<Response, Failure> {
        let mut request = self.client.get(url.clone()).headers(headers);
        if let Some(token) = &self.site.token {
            // Not sent on to another host when this one redirects: reqwest drops it then.
            request = request.bearer_auth(token.expose());
        }
        let response = request.send().await.map_err(|error| passing(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let pause = retry_after(response.headers());
        if matches!(status.as_u16(), 408 | 425 | 429 | 500..=599) {
            return Err(Failure::Passing { reason: status.to_string(), pause });
        }
        if status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Err(Failure::Damaged("the hub has fewer bytes than are here".to_owned()));
        }
        let (site, said) = (self.site.to_string(), words_of(response).await);
        Err(Failure::Final(match status.as_u16() {
            401 => PullError::NeedsToken { site, said },
            403 => PullError::NotAllowed { site, said },
            404 => PullError::NotFound { site, what: what.to_owned(), said },
            _ => PullError::Transfer { site, what: what.to_owned(), reason: format!("{status} {said}") },
        }))
    }

    async fn pause_after(&self, failure: Failure, what: &str, tries: &mut Tries) -> Result<(), PullError> {
        tries.fruitless += 1;
        let (reason, pause) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Damaged(difference) => {
                tries.damaged += 1;
                // Once may be an accident on the way; twice the same is what the hub has.
                if tries.damaged > 1 {
                    return Err(PullError::Damaged {
                        site: self.site.to_string(),
                        path: what.to_owned(),
                        difference,
                    });
                }
                (difference, None)
            }
            Failure::Passing { reason, pause } => (reason, pause),
        };
        if tries.fruitless >= MAX_FRUITLESS_TRIES {
            let reason = format!("{reason}, {} times in a row", tries.fruitless);
            return Err(PullError::Transfer { site: self.site.to_string(), what: what.to_owned(), reason });
        }
        let pause = pause.unwrap_or(FIRST_PAUSE * 2u32.pow(tries.fruitless - 1)).min(LONGEST_PAUSE);
        (self.tell)(Step::Waiting { what, seconds: pause.as_secs() });
        tracing::debug!(what, reason, ?pause, "a request of the pull is repeated");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn tell_bytes(&self, bytes: u64) {
        (self.tell)(Step::Bytes(bytes as i64));
    }
}

#[derive(Default)]
struct Tries {
    fruitless: u32,
    damaged: u32,
}

/// Whether a file has the size and the checksum of the list; the difference when not.
fn is_whole(entry: &Entry, file: &Path) -> std::io::Result<Result<(), String>> {
    let Ok(metadata) = fs_err::metadata(file) else { return Ok(Err("it is not there".to_owned())) };
    if metadata.len() != entry.bytes {
        return Ok(Err(format!("{} bytes and not {}", metadata.len(), entry.bytes)));
    }
    let Some(checksum) = &entry.checksum else { return Ok(Ok(())) };
    Ok(checksum.check(file)?.map_err(|found| format!("{found} and not {checksum}")))
}

fn part_of(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn passing(error: &reqwest::Error) -> Failure {
    Failure::Passing { reason: reason(error), pause: None }
}

/// The innermost cause says what happened; the address, which may hold a signed query, is left out.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

fn range_start(response: &Response) -> Option<u64> {
    let text = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    text.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// `<URL>; rel="next"`.
fn next_link(base: &Url, value: &str) -> Option<Url> {
    value.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        parameters.contains("rel=\"next\"").then(|| base.join(target).ok())?
    })
}

/// The hub's own words about a refusal.
async fn words_of(response: Response) -> String {
    let header =
        response.headers().get("x-error-message").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let text = match header {
        Some(text) => text,
        None => {
            let body = response.text().await.unwrap_or_default();
            let field = serde_json::from_str::<serde_json::Value>(&body).ok();
            let named = field.as_ref().and_then(|value| {
                ["error", "Message", "message"]
                    .iter()
                    .find_map(|name| value[*name].as_str().map(str::to_owned))
            });
            // A page of HTML says nothing here.
            named.unwrap_or(if body.trim_start().starts_with('<') { String::new() } else { body })
        }
    };
    text.trim().chars().filter(|character| !character.is_control()).take(MAX_SAID_CHARACTERS).collect()
}
