use gaia_tests::machine::program;
use gaia_tests::made_run;
use reqwest::{Client, Method, StatusCode};
use tokio::process::Command;

use crate::viewer::Viewer;

const TOKEN: &str = "a-token-of-some-length";

#[tokio::test]
async fn only_this_machine_is_answered_and_nothing_is_taken() {
    let runs = tempfile::tempdir().unwrap();
    let run = made_run::partial(runs.path()).unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let client = Client::new();
    let status = async |method: Method, path: &str, header: (&str, &str)| {
        let url = format!("{}{path}", viewer.url);
        client.request(method, url).header(header.0, header.1).send().await.unwrap().status()
    };
    let plain = ("x-none", "1");
    assert_eq!(status(Method::GET, "/", plain).await, StatusCode::OK);
    assert_eq!(status(Method::POST, "/", plain).await, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(status(Method::GET, "/", ("host", "evil.example")).await, StatusCode::FORBIDDEN);
    assert_eq!(status(Method::GET, "/", ("origin", "http://evil.example")).await, StatusCode::FORBIDDEN);
    for path in [
        "/run/none",
        "/run/..%2F..",
        "/run/.hidden",
        &format!("/run/{}/none/1", run.id),
        &format!("/run/{}/done/9", run.id),
        &format!("/run/{}/done/1?attempt=9", run.id),
        &format!("/run/{}/done/1/file/..%2F..%2Fresult.json", run.id),
        &format!("/run/{}/done/1/file/none.txt", run.id),
        &format!("/run/{}/done/1/text/99/content", run.id),
        &format!("/run/{}/done/1/text/1/truth", run.id),
    ] {
        assert_eq!(status(Method::GET, path, plain).await, StatusCode::NOT_FOUND, "{path}");
    }
    // A link whose number is none is answered by a page that says so, in words and not in those of a parser.
    for (path, code, words) in [
        (
            format!("/run/{}/done/first", run.id),
            404,
            "the epoch of a sample, and the number of a turn, are whole numbers",
        ),
        (format!("/run/{}/done/1/text/x/content", run.id), 404, "are whole numbers"),
        (format!("/run/{}/done/1?turn=last", run.id), 400, "`?turn=last` is not understood"),
        (format!("/run/{}/done/1?attempt=-1", run.id), 400, "attempts, turns and pages are whole numbers"),
        (format!("/run/{}/search?q=x&from=9999999999999999999999", run.id), 400, "is not understood"),
        ("/?page=%3Cb%3E".to_owned(), 400, "is not understood"),
    ] {
        let answer = client.get(format!("{}{path}", viewer.url)).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), code, "{path}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(words) && page.contains("<h1>"), "{path}: {page}");
        assert!(!page.contains("u32") && !page.contains("digit") && !page.contains("<b>"), "{path}: {page}");
    }
    let whole = viewer.text(&format!("/run/{}/done/1/text/1/result-0", run.id)).await;
    assert_eq!(whole, "of the second attempt");
    viewer.end().await;
}

#[tokio::test]
async fn an_address_that_others_reach_wants_a_token() {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().to_str().unwrap();
    let refused =
        Command::new(program("gaia")).args(["view", folder, "--listen", "0.0.0.0:0"]).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--token-env"));

    let arguments = [folder, "--listen", "0.0.0.0:0", "--token-env", "VIEW_TOKEN"];
    let viewer = Viewer::start_with(&arguments, &[("VIEW_TOKEN", TOKEN)]).await;
    let url = viewer.url.replace("0.0.0.0", "127.0.0.1");
    let client = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    assert_eq!(client.get(&url).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let first = client.get(format!("{url}/?token={TOKEN}")).send().await.unwrap();
    assert_eq!(
        (first.status(), &first.headers()["location"]),
        (StatusCode::SEE_OTHER, &"/".parse().unwrap())
    );
    let cookie = first.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let second = client.get(&url).header("cookie", cookie).send().await.unwrap();
    assert_eq!(second.status(), StatusCode::OK);
    viewer.end().await;
}

#[tokio::test]
async fn what_cannot_be_shown_is_named() {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().to_str().unwrap();
    for (arguments, expected) in [
        (vec!["view", "2026", "--out", folder], "there is no run in"),
        (vec!["view", "--out", "/nowhere/at/all"], "there is no folder `/nowhere/at/all`"),
    ] {
        let ended = Command::new(program("gaia")).args(&arguments).output().await.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    // A run opens on its own page.
    made_run::partial(runs.path()).unwrap();
    let viewer = Viewer::start_with(&["last", "--out", folder], &[]).await;
    assert!(viewer.url.ends_with("/run/20261103T090000Z-partial"), "{}", viewer.url);
    viewer.end().await;
}
