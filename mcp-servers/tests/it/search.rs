use serde_json::{Value, json};

use crate::site::{Site, page, with_headers};
use crate::support::{Era, Process, command, stdio};
use crate::web_support::{SEARCH, Web, all_text};

fn brave(hits: &[(&str, &str)]) -> Value {
    let results: Vec<Value> = hits
        .iter()
        .map(|(url, title)| json!({ "url": url, "title": title, "description": "d", "page_age": "2024-01-02T00:00:00" }))
        .collect();
    json!({ "web": { "results": results } })
}

fn first(result: &rmcp::model::CallToolResult) -> Value {
    serde_json::from_str(&result.content[0].as_text().unwrap().text).unwrap()
}

#[tokio::test]
async fn each_engine_is_asked_in_its_own_way_and_gives_the_same_shape() {
    let site = Site::start(|asked| {
        let hit = json!({ "url": "https://www.a.example/x", "link": "https://www.a.example/x", "title": "T", "content": "d",
            "snippet": "d", "text": "d", "description": "d", "publishedDate": "2024-01-02", "published_date": "2024-01-02",
            "date": "2024-01-02", "page_age": "2024-01-02" });
        assert!(asked.target.starts_with("/search") || asked.target.starts_with("/res/v1/"));
        page("application/json", json!({ "results": [hit], "organic": [hit], "web": { "results": [hit] } }).to_string())
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index.jsonl");
    let line = json!({ "url": "https://www.a.example/x", "title": "T", "description": "d", "date": "2024-01-02", "words": "varn" });
    fs_err::write(&index, format!("{line}\n")).unwrap();
    for (engine, key, header, value) in [
        ("brave", "BRAVE_API_KEY", "x-subscription-token", "secret-key"),
        ("searxng", "", "accept", "*/*"),
        ("tavily", "TAVILY_API_KEY", "authorization", "Bearer secret-key"),
        ("serper", "SERPER_API_KEY", "x-api-key", "secret-key"),
        ("exa", "EXA_API_KEY", "x-api-key", "secret-key"),
        ("fixture", "", "", ""),
    ] {
        let url = site.url("/");
        let flag = format!("--{engine}-url");
        let mut args = vec!["--engine", engine];
        if engine == "fixture" {
            args.extend(["--fixture", index.to_str().unwrap()]);
        } else {
            args.extend([flag.as_str(), url.as_str()]);
        }
        let environment = [(key, "secret-key")];
        let environment = if key.is_empty() { &environment[..0] } else { &environment[..] };
        let web = Web::start(SEARCH, &args, environment).await;
        let result =
            web.call("brave_web_search", json!({ "query": "lights of varn", "freshness": "pw" })).await;
        assert_eq!(
            first(&result),
            json!({ "url": "https://www.a.example/x", "title": "T", "description": "d", "date": "2024-01-02", "site": "a.example" }),
            "{engine}"
        );
        if engine != "fixture" {
            let asked = site.asked().pop().unwrap();
            assert_eq!(asked.headers.get(header).map(String::as_str), Some(value), "{engine}");
            let line = web.logs.with("request").pop().unwrap();
            assert_eq!((&line["for"], &line["status"]), (&json!("search"), &json!(200)), "{engine}");
        }
        assert!(!format!("{:?}", web.logs.all()).contains("secret-key"), "{engine}");
    }
}

#[tokio::test]
async fn the_next_engine_is_asked_when_one_fails() {
    let down = Site::start(|_| with_headers(500, &[], "down")).await;
    let up = Site::start(|_| {
        page(
            "application/json",
            json!({ "results": [{ "url": "http://a.example/", "title": "up", "content": "" }] }).to_string(),
        )
    })
    .await;
    let (down_url, up_url) = (down.url("/"), up.url("/"));
    let args = ["--engine", "brave,searxng", "--brave-url", &down_url, "--searxng-url", &up_url];
    let web = Web::start(SEARCH, &args, &[("BRAVE_API_KEY", "k")]).await;
    let result = web.call("brave_web_search", json!({ "query": "x" })).await;
    assert_eq!(first(&result)["title"], "up");
    assert_eq!(web.logs.with("engine_failed")[0]["engine"], "brave");
    let args = ["--engine", "brave,searxng", "--brave-url", &down_url, "--searxng-url", &down_url];
    let web = Web::start(SEARCH, &args, &[("BRAVE_API_KEY", "k")]).await;
    let text = web.failure("brave_web_search", json!({ "query": "x" })).await;
    assert!(
        text.contains("no search engine answered: brave: 500") && text.contains("searxng: 500"),
        "{text}"
    );
}

#[tokio::test]
async fn errors_are_said_in_words() {
    let site = Site::start(|asked| match asked.target.as_str() {
        target if target.contains("q=key") => {
            with_headers(401, &[("Content-Type", "application/json")], "{\"type\":\"ErrorResponse\"}")
        }
        target if target.contains("q=spent") => {
            let headers =
                [("X-RateLimit-Remaining", "0, 0"), ("X-RateLimit-Reset", "1, 1000"), ("Retry-After", "1")];
            with_headers(429, &headers, "too many")
        }
        target if target.contains("q=odd") => page("text/html", "<p>no JSON"),
        _ => page("application/json", brave(&[]).to_string()),
    })
    .await;
    let url = site.url("/");
    let web =
        Web::start(SEARCH, &["--brave-url", &url, "--requests-per-sec", "0"], &[("BRAVE_API_KEY", "k")])
            .await;
    for (query, parts) in [
        (
            "key",
            &["401 Unauthorized\n{\n  \"type\": \"ErrorResponse\"\n}", "does not take this server's key"][..],
        ),
        ("spent", &["429 Too Many Requests\ntoo many", "requests are used up"]),
        ("odd", &["reply is not JSON"]),
        ("none", &["No web results found"]),
        ("", &["`query` is empty"]),
    ] {
        let text = web.failure("brave_web_search", json!({ "query": query })).await;
        for part in parts {
            assert!(text.contains(part), "{query}: {text}");
        }
    }
    let closed = Web::start(SEARCH, &["--brave-url", "http://127.0.0.1:9"], &[("BRAVE_API_KEY", "k")]).await;
    assert!(closed.failure("brave_web_search", json!({ "query": "x" })).await.starts_with("fetch failed: "));
}

#[tokio::test]
async fn results_are_without_blocked_places_and_copies_are_flagged() {
    let question = "which of the towers that the board of the harbour listed in its report of 1911 was the tallest one of all";
    let copied = format!("Copy: {question}");
    let reply = brave(&[
        ("https://huggingface.co/datasets/gaia-benchmark/GAIA", "answers"),
        ("https://www.a.example/x/", "one"),
        ("http://a.example/x", "the same"),
        ("https://b.example/", &copied),
    ]);
    let site = Site::start(move |_| page("application/json", reply.to_string())).await;
    let url = site.url("/");
    let environment = [("BRAVE_API_KEY", "k"), ("GAIA_QUESTION", question)];
    let web = Web::start(SEARCH, &["--brave-url", &url], &environment).await;
    let result = web.call("brave_web_search", json!({ "query": "x" })).await;
    let text = all_text(&result);
    assert_eq!(result.content.len(), 2, "{text}");
    assert!(
        !text.contains("huggingface")
            && text.contains("https://www.a.example/x/")
            && text.contains("b.example"),
        "{text}"
    );
    assert_eq!(web.logs.with("result_left_out")[0]["block_list_entry"], "huggingface.co");
    assert_eq!(web.logs.with("contaminated")[0]["url"], "https://b.example/");
    let open = Web::start(SEARCH, &["--brave-url", &url, "--no-block-list"], &environment).await;
    let result = open.call("brave_web_search", json!({ "query": "x" })).await;
    assert_eq!(result.content.len(), 3);
    assert!(open.logs.with("integrity")[0].as_str().unwrap().starts_with("block-list: off"));
}

#[tokio::test]
async fn only_what_an_engine_offers_and_the_operator_wants_is_listed() {
    let names = async |args: &[&str]| -> Vec<String> {
        let web = Web::start(SEARCH, args, &[("BRAVE_API_KEY", "k")]).await;
        web.client.tools().await.iter().map(|tool| tool.name.to_string()).collect()
    };
    assert_eq!(names(&[]).await.len(), 8);
    assert_eq!(names(&["--engine", "searxng"]).await, ["brave_web_search"]);
    assert_eq!(names(&["--engine", "searxng,brave"]).await.len(), 8);
    assert_eq!(names(&["--legacy"]).await, ["brave_web_search", "brave_local_search"]);
    assert_eq!(
        names(&["--enabled-tools", "brave_web_search", "brave_news_search"]).await,
        ["brave_web_search", "brave_news_search"]
    );
    assert_eq!(names(&["--disabled-tools", "brave_summarizer"]).await.len(), 7);
}

#[tokio::test]
async fn a_start_that_cannot_work_says_why() {
    for (args, code, part) in [
        (&[][..], 4, "BRAVE_API_KEY is not set"),
        (&["--engine", "tavily"], 4, "TAVILY_API_KEY is not set"),
        (&["--engine", "fixture"], 2, "needs --fixture FILE"),
        (&["--engine", "fixture", "--fixture", "/no/such/file"], 4, "/no/such/file"),
        (
            &["--engine", "searxng", "--enabled-tools", "brave_summarizer"],
            2,
            "there is no tool `brave_summarizer`",
        ),
        (&["--engine", "altavista"], 2, "invalid value 'altavista'"),
        (&["--block-list", "/no/such/list"], 2, "/no/such/list"),
    ] {
        let mut command = command(SEARCH, args);
        for name in ["BRAVE_API_KEY", "TAVILY_API_KEY", "GAIA_SEARCH_FIXTURE", "BRAVE_MCP_ENABLED_TOOLS"] {
            command.env_remove(name);
        }
        let (ended, stdout, stderr) = Process::spawn(command).end().await;
        assert_eq!(ended, Some(code), "{args:?}: {stderr}");
        assert!(stdout.is_empty() && stderr.contains(part), "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_modern_client_searches_too() {
    let folder = tempfile::tempdir().unwrap();
    let index = folder.path().join("index.jsonl");
    fs_err::write(&index, "{\"url\":\"http://a.example/\",\"title\":\"Lights\",\"description\":\"d\"}\n")
        .unwrap();
    let (_server, client) =
        stdio(SEARCH, &["--engine", "fixture", "--fixture", index.to_str().unwrap()], Era::Modern).await;
    let result = client.try_call("brave_web_search", json!({ "query": "lights" })).await.unwrap();
    assert_eq!(first(&result)["title"], "Lights");
    client.close().await;
}
