//! Pages kept in a folder that all servers of a run share, so that N samples fetch a page once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

/// Of what is kept, the headers that say what it is and how to ask whether it is still right.
const KEPT_HEADERS: [HeaderName; 6] = [
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
    /// Makes the folder when it is not there.
    pub fn open(folder: &Path, fresh: Duration) -> std::io::Result<Self> {
        fs_err::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), fresh })
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
            tracing::debug!(%error, "a page was not kept");
        }
    }

    /// In full or not at all: several servers write here.
    fn write(&self, path: &Path, head: &Head, body: &[u8]) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        serde_json::to_writer(&mut file, head)?;
        file.write_all(b"\n")?;
        file.write_all(body)?;
        file.persist(path)?;
        Ok(())
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
            let cache = Cache::open(folder.path(), Duration::from_secs(300)).unwrap();
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
            let cache = Cache::open(folder.path(), Duration::from_secs(300)).unwrap();
            let url = put(&cache, &headers, now);
            assert!(cache.get(&url, AGENT, now).is_none(), "{headers:?}");
        }
    }

    #[test]
    fn a_torn_or_foreign_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), Duration::from_secs(300)).unwrap();
        let now = SystemTime::now();
        let url = put(&cache, &[("etag", "\"1\"")], now);
        assert_eq!(cache.get(&url, AGENT, now).unwrap().conditions()[header::IF_NONE_MATCH], "\"1\"");
        for content in ["", "{", "{\"format\":9}\nx", "no newline"] {
            fs_err::write(cache.path(&url, AGENT), content).unwrap();
            assert!(cache.get(&url, AGENT, now).is_none(), "{content}");
        }
    }
}
