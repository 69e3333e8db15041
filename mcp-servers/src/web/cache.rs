//! Pages kept in a folder that all servers of a run share, so that N samples fetch a page once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use super::cache_room::Room;

/// Of what is kept, the headers that say what it is and how to ask whether it is still right.
const KEPT_HEADERS: [HeaderName; 7] = [
    header::CACHE_CONTROL,
    header::CONTENT_TYPE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_DISPOSITION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LOCATION,
];
/// Longer than any run.
const MAX_FRESH: Duration = Duration::from_secs(7 * 24 * 3600);
/// Of a format that changed, nothing is read.
const FORMAT: u32 = 1;

/// A folder of kept pages.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    /// How long a page is taken as it is when it does not say itself.
    fresh: Duration,
    room: Arc<Room>,
}

/// A page as it was kept.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    is_fresh: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    url: String,
    status: u16,
    headers: Vec<(String, String)>,
    fresh_until_unix_sec: u64,
}

impl Cache {
    /// Makes the folder when it is not there. What is kept in it, by all servers together, is `max_bytes` at most.
    pub fn open(folder: &Path, fresh: Duration, max_bytes: u64) -> std::io::Result<Self> {
        fs_err::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), fresh, room: Arc::new(Room::new(folder, max_bytes)) })
    }

    /// One file for each address and each kind of client.
    fn path(&self, url: &Url, user_agent: &str) -> PathBuf {
        let mut name = Sha256::new();
        let mut plain = url.clone();
        plain.set_fragment(None);
        name.update(plain.as_str());
        name.update([0]);
        name.update(user_agent);
        let name: String = name.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name)
    }

    /// What is there and whole. A file that cannot be read is as good as none.
    pub(super) fn get(&self, url: &Url, user_agent: &str, now: SystemTime) -> Option<Kept> {
        let file = Bytes::from(fs_err::read(self.path(url, user_agent)).ok()?);
        let end = file.iter().position(|byte| *byte == b'\n')?;
        let head: Head = serde_json::from_slice(&file[..end]).ok()?;
        if head.format != FORMAT {
            return None;
        }
        let headers = head.headers.iter().filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
        });
        Some(Kept {
            status: StatusCode::from_u16(head.status).ok()?,
            headers: headers.collect(),
            body: file.slice(end + 1..),
            is_fresh: unix(now) < head.fresh_until_unix_sec,
        })
    }

    /// Keeps a reply, if it may be kept. Failures to write are the cache's own trouble.
    pub(super) fn put(
        &self,
        url: &Url,
        user_agent: &str,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Bytes,
        now: SystemTime,
    ) {
        let Some(fresh) = self.may_keep(url, status, headers, now) else { return };
        if !self.room.has_place_for(body.len() as u64) {
            return;
        }
        let kept = KEPT_HEADERS.iter().filter_map(|name| {
            Some((name.as_str().to_owned(), headers.get(name)?.to_str().ok()?.to_owned()))
        });
        let head = Head {
            format: FORMAT,
            url: super::record::without_secrets(url),
            status: status.as_u16(),
            headers: kept.collect(),
            fresh_until_unix_sec: unix(now + fresh),
        };
        if let Err(error) = self.write(&self.path(url, user_agent), &head, body) {
            tracing::debug!(%error, "failed to keep a page, or to make room for it");
        }
    }

    /// In full or not at all: several servers write here.
    fn write(&self, path: &Path, head: &Head, body: &[u8]) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        serde_json::to_writer(&mut file, head)?;
        file.write_all(b"\n")?;
        file.write_all(body)?;
        let bytes = file.as_file().metadata()?.len();
        file.persist(path)?;
        self.room.taken(bytes)
    }

    /// For how long a reply may be used unasked; `None` when it must not be kept.
    fn may_keep(
        &self,
        url: &Url,
        status: StatusCode,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Option<Duration> {
        let is_ours = !url.username().is_empty() || headers.contains_key(header::SET_COOKIE);
        if status != StatusCode::OK || is_ours {
            return None;
        }
        let control = text(headers, &header::CACHE_CONTROL).to_lowercase();
        let directives: Vec<&str> = control.split(',').map(str::trim).collect();
        if directives.iter().any(|directive| matches!(*directive, "no-store" | "private")) {
            return None;
        }
        if directives.contains(&"no-cache") {
            return Some(Duration::ZERO);
        }
        let age = directives.iter().find_map(|directive| directive.strip_prefix("max-age=")?.parse().ok());
        let expires = || {
            let date = httpdate::parse_http_date(text(headers, &header::EXPIRES)).ok()?;
            Some(date.duration_since(now).unwrap_or_default())
        };
        let fresh = age.map(Duration::from_secs).or_else(expires).unwrap_or(self.fresh);
        Some(fresh.min(MAX_FRESH))
    }
}

impl Kept {
    /// Whether it can be used without asking.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The headers that ask whether it is still right.
    pub(super) fn conditions(&self) -> HeaderMap {
        let mut conditions = HeaderMap::new();
        for (from, to) in
            [(header::ETAG, header::IF_NONE_MATCH), (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE)]
        {
            if let Some(value) = self.headers.get(from) {
                conditions.insert(to, value.clone());
            }
        }
        conditions
    }

    /// RFC 9111, 4.3.4: the headers of the reply that says it is still right take the places of those that were kept.
    pub(super) fn renewed(mut self, confirmed: &HeaderMap) -> Self {
        for name in &KEPT_HEADERS {
            if let Some(value) = confirmed.get(name) {
                self.headers.insert(name, value.clone());
            }
        }
        if let Some(expires) = confirmed.get(header::EXPIRES) {
            self.headers.insert(header::EXPIRES, expires.clone());
        }
        self
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn unix(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: &str = "test/1";

    fn put(cache: &Cache, headers: &[(&'static str, &str)], now: SystemTime) -> Url {
        let url = Url::parse("http://a.example/page#top").unwrap();
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        cache.put(&url, AGENT, StatusCode::OK, &headers, &Bytes::from_static(b"one\ntwo"), now);
        url
    }

    #[test]
    fn a_page_is_kept_for_as_long_as_it_says() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let after = |seconds| start + Duration::from_secs(seconds);
        for (headers, fresh_at, stale_at) in [
            (&[("cache-control", "public, max-age=60")][..], Some(59), 60),
            (&[], Some(299), 300),
            (&[("cache-control", "no-cache"), ("etag", "\"1\"")], None, 0),
            (&[("expires", "Fri, 15 Jan 2027 08:00:10 GMT")], Some(9), 10),
            (&[("cache-control", "max-age=99999999")], Some(600_000), 700_000),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::open(folder.path(), Duration::from_secs(300), 1_000_000).unwrap();
            let url = put(&cache, headers, start);
            if let Some(seconds) = fresh_at {
                let kept = cache.get(&url, AGENT, after(seconds)).unwrap();
                assert!(kept.is_fresh(), "{headers:?}");
                assert_eq!(&kept.body[..], b"one\ntwo");
            }
            assert!(!cache.get(&url, AGENT, after(stale_at)).unwrap().is_fresh(), "{headers:?}");
            assert!(cache.get(&url, "another/1", start).is_none());
        }
    }

    #[test]
    fn what_is_not_for_all_is_not_kept() {
        let now = SystemTime::now();
        for headers in [
            [("cache-control", "no-store")],
            [("cache-control", "private, max-age=5")],
            [("set-cookie", "a=b")],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let cache = Cache::open(folder.path(), Duration::from_secs(300), 1_000_000).unwrap();
            let url = put(&cache, &headers, now);
            assert!(cache.get(&url, AGENT, now).is_none(), "{headers:?}");
        }
    }

    #[test]
    fn a_page_that_is_still_right_is_fresh_again_as_the_server_says_now() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let later = start + Duration::from_secs(1_000);
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), Duration::from_secs(300), 1_000_000).unwrap();
        let url = put(&cache, &[("cache-control", "no-cache"), ("etag", "\"1\"")], start);
        let renew = |confirmed: HeaderMap| {
            let kept = cache.get(&url, AGENT, later).unwrap().renewed(&confirmed);
            cache.put(&url, AGENT, kept.status, &kept.headers, &kept.body, later);
            cache.get(&url, AGENT, later).unwrap()
        };
        assert!(!renew(HeaderMap::new()).is_fresh(), "what was not to be used unasked is not now");
        let kept = renew(HeaderMap::from_iter([(header::CACHE_CONTROL, "max-age=60".parse().unwrap())]));
        assert!(kept.is_fresh());
        assert_eq!((&kept.body[..], kept.conditions().len()), (&b"one\ntwo"[..], 1));
    }

    #[test]
    fn servers_that_share_a_folder_keep_to_its_bound_and_read_whole_pages() {
        const MAX_BYTES: u64 = 64 * 1024;
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let address = |number: usize| Url::parse(&format!("http://a.example/{number}")).unwrap();
        let body = |number: usize| Bytes::from(format!("{number} ").repeat(500));
        std::thread::scope(|scope| {
            for server in 0..4 {
                let cache = Cache::open(folder.path(), Duration::from_secs(300), MAX_BYTES).unwrap();
                scope.spawn(move || {
                    for number in (0..200).map(|round| (round * 7 + server * 50) % 200) {
                        let url = address(number);
                        cache.put(&url, AGENT, StatusCode::OK, &HeaderMap::new(), &body(number), now);
                        // Kept by this or another server, or removed by one: never in part.
                        if let Some(kept) = cache.get(&url, AGENT, now) {
                            assert_eq!(kept.body, body(number));
                        }
                    }
                });
            }
        });
        let files = fs_err::read_dir(folder.path()).unwrap();
        let total: u64 = files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        // Each of the four may write a thirty-second between two counts.
        assert!((MAX_BYTES / 2..=MAX_BYTES + MAX_BYTES / 8).contains(&total), "{total}");
        let cache = Cache::open(folder.path(), Duration::from_secs(300), MAX_BYTES).unwrap();
        let large = Bytes::from(vec![b'x'; MAX_BYTES as usize / 4]);
        cache.put(&address(999), AGENT, StatusCode::OK, &HeaderMap::new(), &large, now);
        assert!(cache.get(&address(999), AGENT, now).is_none(), "one page does not drive out all others");
    }

    #[test]
    fn a_torn_or_foreign_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), Duration::from_secs(300), 1_000_000).unwrap();
        let now = SystemTime::now();
        let url = put(&cache, &[("etag", "\"1\"")], now);
        assert_eq!(cache.get(&url, AGENT, now).unwrap().conditions()[header::IF_NONE_MATCH], "\"1\"");
        for content in ["", "{", "{\"format\":9}\nx", "no newline"] {
            fs_err::write(cache.path(&url, AGENT), content).unwrap();
            assert!(cache.get(&url, AGENT, now).is_none(), "{content}");
        }
    }
}
