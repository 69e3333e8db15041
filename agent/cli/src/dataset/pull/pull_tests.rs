use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;
use crate::config::Secret;

/// What the stand-in does with requests for files.
#[derive(Clone, Default)]
struct Manners {
    /// Each answer is cut after so many bytes, from a generator with this seed.
    cut_with_seed: Option<u64>,
    ignores_ranges: bool,
    /// So many first answers are refused with this status.
    refusals: (u16, usize),
    /// Header of a refusal.
    refusal_header: Option<(&'static str, &'static str)>,
    /// So many first files are sent with a wrong byte.
    damaged: usize,
    /// Files are at this address.
    elsewhere: Option<String>,
    /// Files have more bytes than their list says.
    grows: bool,
    page_entries: Option<usize>,
    extra_paths: Vec<&'static str>,
}

struct StandIn {
    hub: Hub,
    manners: Manners,
    files: BTreeMap<String, Vec<u8>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    file_requests: usize,
    refused: usize,
    damaged: usize,
    /// Where each answer began, by file.
    starts: BTreeMap<String, Vec<usize>>,
    tokens: Vec<Option<String>>,
    random: Option<fastrand::Rng>,
}

fn snapshot_files() -> BTreeMap<String, Vec<u8>> {
    let row = |id: &str, level: u8, file: &str, truth: &str| {
        json!({"task_id": id, "Question": "How many?", "Level": level, "Final answer": truth, "file_name": file,
            "Annotator Metadata": {}})
        .to_string()
    };
    let validation = [row("v-1", 1, "", "17"), row("v-2", 2, "v-2.bin", "x")].join("\n");
    let test = [row("t-1", 1, "", "?"), row("0-0-0-0-0", 3, "", "?")].join("\n");
    let large = (0..200_000u32).flat_map(|number| number.to_le_bytes()).collect();
    BTreeMap::from([
        ("README.md".to_owned(), b"not of a split".to_vec()),
        ("2023/validation/metadata.jsonl".to_owned(), validation.into_bytes()),
        ("2023/validation/v-2.bin".to_owned(), large),
        ("2023/test/metadata.jsonl".to_owned(), test.into_bytes()),
    ])
}

impl StandIn {
    async fn start(hub: Hub, manners: Manners) -> (Arc<Self>, Site) {
        let this =
            Arc::new(Self { hub, manners, files: snapshot_files(), seen: Mutex::new(Seen::default()) });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let endpoint = format!("http://{address}");
        let mut site = Site::new(hub, Some(&endpoint), None, &Environment::default()).unwrap();
        site.token = Some(Secret::new("hf_only_for_this_hub"));
        (this, site)
    }

    fn list(&self, url: &str) -> Response {
        let mut entries: Vec<(String, Vec<u8>)> = self.files.clone().into_iter().collect();
        entries.extend(self.manners.extra_paths.iter().map(|path| ((*path).to_owned(), b"x".to_vec())));
        let sha =
            |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if self.hub == Hub::Modelscope {
            let files: Vec<_> = entries
                .iter()
                .map(|(path, bytes)| json!({"Path": path, "Type": "blob", "Size": bytes.len(), "Sha256": sha(bytes)}))
                .chain([json!({"Path": "2023", "Type": "tree", "Size": 0})])
                .collect();
            return axum::Json(json!({"Code": 200, "Data": {"Files": files, "TotalCount": files.len()}}))
                .into_response();
        }
        let all: Vec<_> = entries
            .iter()
            .map(|(path, bytes)| {
                json!({"type": "file", "path": path, "size": bytes.len(), "oid": "ignored",
                "lfs": {"oid": sha(bytes), "size": bytes.len()}})
            })
            .chain([json!({"type": "directory", "path": "2023", "oid": "x"})])
            .collect();
        let from: usize = url.split("cursor=").nth(1).map_or(0, |text| text.parse().unwrap());
        let until = self.manners.page_entries.map_or(all.len(), |count| (from + count).min(all.len()));
        let mut headers = HeaderMap::new();
        if until < all.len() {
            let path = url.split("&cursor").next().unwrap();
            headers.insert(header::LINK, format!("<{path}&cursor={until}>; rel=\"next\"").parse().unwrap());
        }
        (headers, axum::Json(&all[from..until])).into_response()
    }

    fn file(&self, path: &str, headers: &HeaderMap) -> Response {
        let mut seen = self.seen.lock().unwrap();
        seen.file_requests += 1;
        let (status, times) = self.manners.refusals;
        if seen.refused < times {
            seen.refused += 1;
            let mut headers = HeaderMap::new();
            if let Some((name, value)) = self.manners.refusal_header {
                headers.insert(name, value.parse().unwrap());
            }
            return (StatusCode::from_u16(status).unwrap(), headers, "{\"error\": \"as told\"}")
                .into_response();
        }
        if let Some(elsewhere) = &self.manners.elsewhere {
            return axum::response::Redirect::temporary(&format!("{elsewhere}/moved/{path}")).into_response();
        }
        let mut bytes = self.files[path].clone();
        if seen.damaged < self.manners.damaged {
            seen.damaged += 1;
            bytes[0] ^= 1;
        }
        if self.manners.grows {
            bytes.extend_from_slice(b"more");
        }
        let start = headers
            .get(header::RANGE)
            .filter(|_| !self.manners.ignores_ranges)
            .map_or(0, |range| range.to_str().unwrap()[6..].trim_end_matches('-').parse().unwrap());
        let total = bytes.len();
        let mut rest = bytes.split_off(start);
        let mut end: Option<std::io::Error> = None;
        let length = rest.len();
        if let Some(seed) = self.manners.cut_with_seed {
            let random = seen.random.get_or_insert_with(|| fastrand::Rng::with_seed(seed));
            // Small files too are cut; a third of the answers is whole.
            if random.u8(..3) > 0 {
                rest.truncate(random.usize(..=rest.len().min(300_000)));
                end = Some(std::io::Error::other("cut"));
            }
        }
        seen.starts.entry(path.to_owned()).or_default().push(start);
        let mut chunks: Vec<Result<Vec<u8>, std::io::Error>> =
            rest.chunks(10_000).map(|chunk| Ok(chunk.to_vec())).collect();
        chunks.extend(end.map(Err));
        let body = Body::from_stream(futures_util::stream::iter(chunks));
        let mut response = Response::builder().header(header::CONTENT_LENGTH, length);
        if start > 0 {
            response = response
                .status(StatusCode::PARTIAL_CONTENT)
                .header(header::CONTENT_RANGE, format!("bytes {start}-{}/{total}", total - 1));
        }
        response.body(body).unwrap()
    }
}

async fn answer(State(hub): State<Arc<StandIn>>, request: Request) -> Response {
    let url = request.uri().to_string();
    let token = request.headers().get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    hub.seen.lock().unwrap().tokens.push(token);
    let path = match hub.hub {
        Hub::Huggingface if url.contains("/tree/") => return hub.list(&url),
        Hub::Modelscope if url.contains("/repo/tree?") => return hub.list(&url),
        Hub::Huggingface => {
            url.split("/resolve/682dd723ee1e1697e00360edccf2366dc8418dd9/").nth(1).map(str::to_owned)
        }
        Hub::Modelscope => url.split("FilePath=").nth(1).map(|path| path.replace("%2F", "/")),
    };
    match path.or_else(|| url.split("/moved/").nth(1).map(str::to_owned)) {
        Some(path) => hub.file(&path, request.headers()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

const BOTH: [Split; 2] = [Split::Validation, Split::Test];

async fn pull_into(site: &Site, folder: &Path) -> Result<Pulled, PullError> {
    pull(site, &BOTH, folder, &|_| {}).await
}

fn check_whole(folder: &Path) {
    for (path, bytes) in snapshot_files().iter().filter(|(path, _)| path.starts_with("2023/")) {
        assert!(fs_err::read(folder.join(path)).unwrap() == *bytes, "{path}");
        assert!(!folder.join(format!("{path}.part")).exists(), "{path}");
    }
    assert!(!folder.join("README.md").exists());
    assert_eq!(crate::dataset::load(folder, Split::Validation).unwrap().samples.len(), 2);
}

#[tokio::test]
async fn both_hubs_give_the_snapshot_and_nothing_is_asked_for_twice() {
    for hub in [Hub::Huggingface, Hub::Modelscope] {
        let (stand_in, site) = StandIn::start(hub, Manners::default()).await;
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(pulled(folder.path()), None);
        let first = pull_into(&site, folder.path()).await.unwrap();
        check_whole(folder.path());
        assert_eq!(pulled(folder.path()), Some(first.clone()));
        assert_eq!((first.files, first.splits.as_slice()), (3, [Split::Test, Split::Validation].as_slice()));
        assert_eq!(stand_in.seen.lock().unwrap().file_requests, 3);
        pull_into(&site, folder.path()).await.unwrap();
        assert_eq!(stand_in.seen.lock().unwrap().file_requests, 3, "all was here");
        // A file that was changed here is brought again, and only that.
        fs_err::write(folder.path().join("2023/test/metadata.jsonl"), "{}").unwrap();
        pull_into(&site, folder.path()).await.unwrap();
        assert_eq!(stand_in.seen.lock().unwrap().file_requests, 4);
        check_whole(folder.path());
    }
}

#[tokio::test]
async fn connections_cut_anywhere_are_taken_up_where_they_ended() {
    let mut resumed = 0;
    for seed in 0..25 {
        let manners = Manners { cut_with_seed: Some(seed), ..Manners::default() };
        let (stand_in, site) = StandIn::start(Hub::Huggingface, manners).await;
        let folder = tempfile::tempdir().unwrap();
        // Many answers in a row may bring nothing; then the user calls again, and what is here counts.
        let mut calls = 0;
        while let Err(error) = pull_into(&site, folder.path()).await {
            calls += 1;
            assert!(matches!(error, PullError::Transfer { .. }) && calls < 20, "seed {seed}: {error}");
        }
        check_whole(folder.path());
        let starts = std::mem::take(&mut stand_in.seen.lock().unwrap().starts);
        assert!(starts.values().all(|starts| starts.is_sorted()), "seed {seed}: {starts:?}");
        resumed += starts.values().flatten().filter(|start| **start > 0).count();
    }
    assert!(resumed > 25, "{resumed}");
}

#[tokio::test]
async fn a_hub_without_ranges_is_asked_for_the_whole_again() {
    let manners = Manners { ignores_ranges: true, ..Manners::default() };
    let (stand_in, site) = StandIn::start(Hub::Modelscope, manners).await;
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("2023/validation/v-2.bin.part");
    fs_err::create_dir_all(part.parent().unwrap()).unwrap();
    fs_err::write(&part, b"the beginning of something else").unwrap();
    pull_into(&site, folder.path()).await.unwrap();
    check_whole(folder.path());
    assert_eq!(stand_in.seen.lock().unwrap().file_requests, 3);
}

#[tokio::test]
async fn a_part_that_does_not_fit_is_thrown_away_once() {
    let (stand_in, site) = StandIn::start(Hub::Modelscope, Manners::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("2023/validation/v-2.bin.part");
    fs_err::create_dir_all(part.parent().unwrap()).unwrap();
    fs_err::write(&part, b"the beginning of something else").unwrap();
    pull_into(&site, folder.path()).await.unwrap();
    check_whole(folder.path());
    assert_eq!(stand_in.seen.lock().unwrap().file_requests, 4);
}

#[tokio::test]
async fn a_wrong_hash_is_an_accident_once_and_an_error_twice() {
    let (_, site) = StandIn::start(Hub::Huggingface, Manners { damaged: 1, ..Manners::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    pull_into(&site, folder.path()).await.unwrap();
    check_whole(folder.path());

    let (_, site) = StandIn::start(Hub::Huggingface, Manners { damaged: 99, ..Manners::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let error = pull_into(&site, folder.path()).await.unwrap_err();
    assert!(matches!(&error, PullError::Damaged { path, .. } if path.starts_with("2023/")), "{error}");
    assert!(error.to_string().contains("and not SHA-256"), "{error}");
    assert_eq!(pulled(folder.path()), None, "no mark without all files");

    let (_, site) = StandIn::start(Hub::Huggingface, Manners { grows: true, ..Manners::default() }).await;
    let error = pull_into(&site, tempfile::tempdir().unwrap().path()).await.unwrap_err();
    assert!(matches!(error, PullError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    for (status, header, expected) in [
        (401, None, ["HF_TOKEN", "as told"]),
        (
            403,
            Some(("x-error-message", "Access to dataset gaia-benchmark/GAIA is restricted")),
            ["accept", "restricted"],
        ),
        (404, None, ["--revision", "as told"]),
    ] {
        let manners = Manners { refusals: (status, 99), refusal_header: header, ..Manners::default() };
        let (stand_in, site) = StandIn::start(Hub::Huggingface, manners).await;
        let error = pull_into(&site, tempfile::tempdir().unwrap().path()).await.unwrap_err();
        let text = format!("{error}\n{}", error.hint().unwrap());
        for expected in expected {
            assert!(text.contains(expected), "{status}: {text}");
        }
        assert!(!text.contains("hf_only_for_this_hub"), "{text}");
        assert!(stand_in.seen.lock().unwrap().file_requests <= FILES_AT_ONCE, "{status} is not asked again");
    }
}

#[tokio::test]
async fn a_hub_that_asks_for_patience_gets_it_and_a_broken_one_is_given_up() {
    for (status, header) in [(429, Some(("retry-after", "0"))), (503, None), (500, None)] {
        let manners = Manners { refusals: (status, 4), refusal_header: header, ..Manners::default() };
        let (_, site) = StandIn::start(Hub::Huggingface, manners).await;
        let folder = tempfile::tempdir().unwrap();
        pull_into(&site, folder.path()).await.unwrap();
        check_whole(folder.path());
    }
    let (_, site) =
        StandIn::start(Hub::Huggingface, Manners { refusals: (503, 999), ..Manners::default() }).await;
    let error = pull_into(&site, tempfile::tempdir().unwrap().path()).await.unwrap_err();
    assert!(matches!(&error, PullError::Transfer { reason, .. } if reason.contains("503")), "{error}");
}

#[tokio::test]
async fn the_token_does_not_follow_a_redirect_to_another_host() {
    let (other, other_site) = StandIn::start(Hub::Huggingface, Manners::default()).await;
    let manners = Manners { elsewhere: Some(other_site.to_string()), ..Manners::default() };
    let (stand_in, site) = StandIn::start(Hub::Huggingface, manners).await;
    let folder = tempfile::tempdir().unwrap();
    pull_into(&site, folder.path()).await.unwrap();
    check_whole(folder.path());
    let sent = |hub: &StandIn| hub.seen.lock().unwrap().tokens.iter().flatten().count();
    assert_eq!((sent(&stand_in), sent(&other)), (4, 0));
    assert_eq!(other.seen.lock().unwrap().file_requests, 3);
}

#[tokio::test]
async fn a_list_in_pages_is_read_to_its_end() {
    let manners = Manners { page_entries: Some(2), ..Manners::default() };
    let (_, site) = StandIn::start(Hub::Huggingface, manners).await;
    let folder = tempfile::tempdir().unwrap();
    pull_into(&site, folder.path()).await.unwrap();
    check_whole(folder.path());
}

#[tokio::test]
async fn a_list_that_leaves_the_folder_is_refused_as_a_whole() {
    for path in ["../outside", "/etc/passwd", "2023/validation/../../../outside", "a\\..\\b", ""] {
        let manners = Manners { extra_paths: vec![path], ..Manners::default() };
        let (stand_in, site) = StandIn::start(Hub::Modelscope, manners).await;
        let folder = tempfile::tempdir().unwrap();
        let error = pull_into(&site, folder.path()).await.unwrap_err();
        assert!(matches!(error, PullError::BadList { .. }), "{path}: {error}");
        assert_eq!(stand_in.seen.lock().unwrap().file_requests, 0, "{path}");
    }
}

#[tokio::test]
async fn nobody_at_the_address_is_told_after_some_tries() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let site = Site::new(Hub::Modelscope, Some(&endpoint), None, &Environment::default()).unwrap();
    let error = pull_into(&site, tempfile::tempdir().unwrap().path()).await.unwrap_err();
    assert!(error.to_string().contains("refused") && error.to_string().contains(&endpoint), "{error}");
}

#[test]
fn endpoints_tokens_and_folders_come_from_the_environment() {
    let home = tempfile::tempdir().unwrap();
    fs_err::create_dir_all(home.path().join(".cache/huggingface")).unwrap();
    fs_err::write(home.path().join(".cache/huggingface/token"), "hf_from_the_file\n").unwrap();
    let home_text = home.path().to_str().unwrap();
    let environment = Environment::from_iter(
        [("HOME", home_text), ("HF_ENDPOINT", "http://127.0.0.1:9/mirror/")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let site = Site::new(Hub::Huggingface, None, None, &environment).unwrap();
    assert_eq!(site.to_string(), "http://127.0.0.1:9/mirror");
    assert_eq!(site.token.as_ref().unwrap().expose(), "hf_from_the_file");
    assert_eq!(
        site.file("2023/test/a b.pdf").as_str(),
        "http://127.0.0.1:9/mirror/datasets/gaia-benchmark/GAIA/resolve/682dd723ee1e1697e00360edccf2366dc8418dd9/2023/test/a%20b.pdf"
    );
    let branch = Site::new(Hub::Huggingface, None, Some("refs/pr/1"), &environment).unwrap();
    assert!(branch.file("x").as_str().ends_with("/resolve/refs%2Fpr%2F1/x"), "{}", branch.file("x"));
    assert_eq!(
        cache_folder(&environment, Hub::Modelscope, "master"),
        Some(home.path().join(".cache/gaia/datasets/modelscope/master"))
    );
    assert!(Site::new(Hub::Modelscope, Some("ftp://x"), None, &environment).is_err());
    assert_eq!(pulled_folder(&environment, Hub::Modelscope, Split::Test), None);
}
