//! The two hubs that hold GAIA: what they list and where their files are.

use std::fmt;

use reqwest::Url;
use serde::Deserialize;

use super::checksum::Checksum;
use super::download::Downloader;
use super::{Entry, PullError};
use crate::config::{Hub, Secret};
use crate::environment::Environment;

/// The dataset's name at both.
const NAME: &str = "gaia-benchmark/GAIA";

/// The revision of Hugging Face that everybody compares with (inspect_evals pins it too).
const HUGGING_FACE_REVISION: &str = "682dd723ee1e1697e00360edccf2366dc8418dd9";
/// ModelScope keeps no other.
const MODELSCOPE_REVISION: &str = "master";

const HUGGING_FACE: &str = "https://huggingface.co";
const MODELSCOPE: &str = "https://www.modelscope.cn";

/// Entries of one page of a list, and pages that are read before a list counts as endless. GAIA has about 120 files.
const PAGE_ENTRIES: usize = 200;
const MAX_PAGES: usize = 50;

/// A hub, as it is reached from here.
#[derive(Debug, Clone)]
pub struct Site {
    pub hub: Hub,
    pub revision: String,
    pub endpoint: Url,
    pub token: Option<Secret>,
}

impl Site {
    /// `endpoint` and `revision` as the user gave them; else `HF_ENDPOINT` or `MODELSCOPE_ENDPOINT`, else the hub's own,
    /// and the pinned revision. The token comes from `HF_TOKEN`, else from the file where Hugging Face's own tools keep it;
    /// from `MODELSCOPE_API_TOKEN`.
    pub fn new(
        hub: Hub,
        endpoint: Option<&str>,
        revision: Option<&str>,
        environment: &Environment,
    ) -> Result<Self, String> {
        let (variable, default) = match hub {
            Hub::Huggingface => ("HF_ENDPOINT", HUGGING_FACE),
            Hub::Modelscope => ("MODELSCOPE_ENDPOINT", MODELSCOPE),
        };
        let endpoint = endpoint.or_else(|| environment.get_filled(variable)).unwrap_or(default);
        let parsed = Url::parse(endpoint.trim_end_matches('/'))
            .map_err(|error| format!("`{endpoint}` is not the address of a hub: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(format!(
                "`{endpoint}` is not the address of a hub: it begins with http:// or https://"
            ));
        }
        let token = match hub {
            Hub::Huggingface => environment.get_filled("HF_TOKEN").map(str::to_owned).or_else(|| {
                let home = environment
                    .get_filled("HF_HOME")
                    .map(str::to_owned)
                    .or_else(|| Some(format!("{}/.cache/huggingface", environment.get_filled("HOME")?)))?;
                Some(fs_err::read_to_string(format!("{home}/token")).ok()?.trim().to_owned())
            }),
            Hub::Modelscope => environment.get_filled("MODELSCOPE_API_TOKEN").map(str::to_owned),
        };
        Ok(Self {
            hub,
            revision: revision.unwrap_or(Self::usual_revision(hub)).to_owned(),
            endpoint: parsed,
            token: token.filter(|token| !token.is_empty()).map(Secret::new),
        })
    }

    /// The revision that is taken when none is named.
    pub fn usual_revision(hub: Hub) -> &'static str {
        match hub {
            Hub::Huggingface => HUGGING_FACE_REVISION,
            Hub::Modelscope => MODELSCOPE_REVISION,
        }
    }

    /// Where a file of the snapshot is.
    pub(super) fn file(&self, path: &str) -> Url {
        match self.hub {
            Hub::Huggingface => {
                let mut url = self.at(&format!("datasets/{NAME}/resolve"));
                if let Ok(mut segments) = url.path_segments_mut() {
                    // One segment, even of a branch with a slash in its name.
                    segments.push(&self.revision).extend(path.split('/'));
                }
                url
            }
            Hub::Modelscope => {
                let mut url = self.at(&format!("api/v1/datasets/{NAME}/repo"));
                url.query_pairs_mut().append_pair("Revision", &self.revision).append_pair("FilePath", path);
                url
            }
        }
    }

    fn at(&self, path: &str) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path.split('/'));
        }
        url
    }
}

impl fmt::Display for Site {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.endpoint.as_str().trim_end_matches('/'))
    }
}

/// Every file of the revision.
pub(super) async fn list(site: &Site, downloader: &Downloader<'_>) -> Result<Vec<Entry>, PullError> {
    match site.hub {
        Hub::Huggingface => list_hugging_face(site, downloader).await,
        Hub::Modelscope => list_modelscope(site, downloader).await,
    }
}

#[derive(Deserialize)]
struct TreeEntry {
    #[serde(rename = "type")]
    kind: String,
    path: String,
    #[serde(default)]
    size: u64,
    oid: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

async fn list_hugging_face(site: &Site, downloader: &Downloader<'_>) -> Result<Vec<Entry>, PullError> {
    let mut url = site.at(&format!("api/datasets/{NAME}/tree"));
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.push(&site.revision);
    }
    url.query_pairs_mut().append_pair("recursive", "true");
    let mut entries = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = downloader.page(url.clone(), "the list of files").await?;
        let found: Vec<TreeEntry> = parse(site, &page.body)?;
        entries.extend(found.into_iter().filter(|entry| entry.kind == "file").map(|entry| match entry.lfs {
            Some(lfs) => {
                Entry { path: entry.path, bytes: lfs.size, checksum: Some(Checksum::Sha256(lfs.oid)) }
            }
            None => Entry { path: entry.path, bytes: entry.size, checksum: entry.oid.map(Checksum::GitBlob) },
        }));
        match page.next {
            // Not to another host: the token goes along.
            Some(next) if next.origin() == site.endpoint.origin() => url = next,
            Some(next) => {
                let reason = format!("goes on at another host, `{next}`");
                return Err(PullError::BadList { site: site.to_string(), reason });
            }
            None => return Ok(entries),
        }
    }
    Err(endless(site))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    data: Option<Files>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Files {
    files: Vec<File>,
    total_count: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    path: String,
    #[serde(rename = "Type")]
    kind: String,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    sha256: String,
}

async fn list_modelscope(site: &Site, downloader: &Downloader<'_>) -> Result<Vec<Entry>, PullError> {
    let mut entries = Vec::new();
    let mut seen = 0;
    for page in 1..=MAX_PAGES {
        let mut url = site.at(&format!("api/v1/datasets/{NAME}/repo/tree"));
        url.query_pairs_mut()
            .append_pair("Revision", &site.revision)
            .append_pair("Recursive", "True")
            .append_pair("PageNumber", &page.to_string())
            .append_pair("PageSize", &PAGE_ENTRIES.to_string());
        let answer: Answer = parse(site, &downloader.page(url, "the list of files").await?.body)?;
        let Some(data) = answer.data else {
            let reason =
                format!("is missing: {}", answer.message.unwrap_or_else(|| "no reason given".to_owned()));
            return Err(PullError::BadList { site: site.to_string(), reason });
        };
        let count = data.files.len();
        seen += count;
        entries.extend(data.files.into_iter().filter(|file| file.kind != "tree").map(|file| Entry {
            path: file.path,
            bytes: file.size,
            checksum: Some(file.sha256).filter(|hash| !hash.is_empty()).map(Checksum::Sha256),
        }));
        if count < PAGE_ENTRIES || data.total_count.is_some_and(|total| seen >= total) {
            return Ok(entries);
        }
    }
    Err(endless(site))
}

fn endless(site: &Site) -> PullError {
    PullError::BadList { site: site.to_string(), reason: format!("has more than {MAX_PAGES} pages") }
}

fn parse<T: serde::de::DeserializeOwned>(site: &Site, body: &[u8]) -> Result<T, PullError> {
    serde_json::from_slice(body).map_err(|error| PullError::BadList {
        site: site.to_string(),
        reason: format!("cannot be read: {error}"),
    })
}
