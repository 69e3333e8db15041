use std::time::{Duration, Instant};

use serde_json::json;

use crate::site::{Reply, Site, html, page, redirect, status, with_headers};
use crate::support::{ERAS, Era, http, stdio};
use crate::web_support::{FETCH, Web, all_text};

const ARTICLE: &str = "<html lang=en><head><title>The tower</title></head><body><nav><a href=/>Home</a></nav>\
                       <article><h1>The tower</h1><p>It is 31 metres tall.</p></article></body></html>";

#[tokio::test]
async fn a_page_is_markdown_with_facts_beside_it() {
    let site = Site::of(&[("/old", redirect("/new#part")), ("/new", html(ARTICLE))]).await;
    let web = Web::fetch(&[]).await;
    let result = web.call("fetch", json!({ "url": site.url("/old") })).await;
    let text = all_text(&result);
    assert!(text.starts_with(&format!("Contents of {}:\n", site.url("/old"))), "{text}");
    assert!(text.contains("# The tower\n\nIt is 31 metres tall."), "{text}");
    let facts = result.structured_content.unwrap();
    assert_eq!(facts["final_url"], site.url("/new#part"));
    for (name, value) in [
        ("title", json!("The tower")),
        ("language", json!("en")),
        ("status", json!(200)),
        ("content_type", json!("text/html; charset=utf-8")),
        ("contaminated", json!(false)),
    ] {
        assert_eq!(facts[name], value, "{name}");
    }
    assert!(facts["content"].as_str().unwrap().contains("31 metres"));
    assert_eq!(site.targets(), ["/robots.txt", "/old", "/new"], "robots.txt of a host is asked for once");
}

#[tokio::test]
async fn a_long_page_comes_in_parts_with_the_reference_notices() {
    let site = Site::of(&[("/text", page("text/plain", "abcdefghij"))]).await;
    let web = Web::fetch(&[]).await;
    let prefix = format!(
        "Content type text/plain cannot be simplified to markdown, but here is the raw content:\nContents of {}:\n",
        site.url("/text")
    );
    let cut = |next: usize| {
        format!(
            "\n\n<error>Content truncated. Call the fetch tool with a start_index of {next} to get more content.</error>"
        )
    };
    for (start, length, expected) in [
        (0, 4, format!("abcd{}", cut(4))),
        (4, 4, format!("efgh{}", cut(8))),
        (8, 4, "ij".to_owned()),
        (10, 4, "<error>No more content available.</error>".to_owned()),
    ] {
        let arguments = json!({ "url": site.url("/text"), "start_index": start, "max_length": length });
        let result = web.call("fetch", arguments).await;
        assert_eq!(all_text(&result), format!("{prefix}{expected}"));
    }
    let pages = site.targets().iter().filter(|target| *target == "/text").count();
    assert_eq!(pages, 1, "later parts are of the same page");
}

#[tokio::test]
async fn modes_show_more_or_less() {
    let body = format!(
        "<html><head><title>T</title></head><body><nav><a href=/menu>Menu</a></nav><main><p>{}</p></main></body></html>",
        "Long enough to be the content of this page. ".repeat(20)
    );
    let site = Site::of(&[("/", html(&body))]).await;
    let web = Web::fetch(&[]).await;
    for (extra, has_menu, has_tags) in [
        (json!({}), false, false),
        (json!({ "mode": "full" }), true, false),
        (json!({ "mode": "raw" }), true, true),
        (json!({ "raw": true }), true, true),
    ] {
        let mut arguments = json!({ "url": site.url("/") });
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let text = all_text(&web.call("fetch", arguments).await);
        assert_eq!((text.contains("Menu"), text.contains("<nav>")), (has_menu, has_tags), "{extra}");
    }
}

#[tokio::test]
async fn charsets_and_compressions_are_undone() {
    let gzip = {
        // "café" in Latin-1, packed by hand: a stored block.
        let data = b"<html><p>caf\xe9";
        let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1];
        bytes.extend((data.len() as u16).to_le_bytes());
        bytes.extend((!(data.len() as u16)).to_le_bytes());
        bytes.extend(data);
        bytes.extend(0xed7a_48cf_u32.to_le_bytes());
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes
    };
    let crc = crc32(b"<html><p>caf\xe9");
    let at = gzip.len() - 8;
    let mut gzip = gzip;
    gzip[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    let latin = [("Content-Type", "text/html; charset=iso-8859-1"), ("Content-Encoding", "gzip")];
    let site = Site::of(&[
        ("/gzip", with_headers(200, &latin, gzip)),
        ("/meta", page("text/html", b"<html><meta charset=windows-1251><p>\xcc\xe0\xff\xea".to_vec())),
    ])
    .await;
    let web = Web::fetch(&[]).await;
    assert!(web.page(&site.url("/gzip")).await.contains("café"));
    assert!(web.page(&site.url("/meta")).await.contains("Маяк"));
    let accepted = &site.asked()[1].headers["accept-encoding"];
    for name in ["gzip", "br", "zstd", "deflate"] {
        assert!(accepted.contains(name), "{accepted}");
    }
}

/// Packed elsewhere: `<html><p>packed` with brotli and with zstd.
#[tokio::test]
async fn newer_compressions_are_undone() {
    let brotli = b"\x0b\x07\x80\x3c\x68\x74\x6d\x6c\x3e\x3c\x70\x3e\x70\x61\x63\x6b\x65\x64\x03";
    let zstd =
        b"\x28\xb5\x2f\xfd\x20\x0f\x79\x00\x00\x3c\x68\x74\x6d\x6c\x3e\x3c\x70\x3e\x70\x61\x63\x6b\x65\x64";
    let packed = |encoding, body: &[u8]| {
        with_headers(200, &[("Content-Type", "text/html"), ("Content-Encoding", encoding)], body)
    };
    let site = Site::of(&[("/br", packed("br", brotli)), ("/zstd", packed("zstd", zstd))]).await;
    let web = Web::fetch(&["--ignore-robots-txt"]).await;
    for path in ["/br", "/zstd"] {
        assert!(web.page(&site.url(path)).await.ends_with("\npacked"), "{path}");
    }
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (0u32.wrapping_sub(crc & 1))))
    })
}

#[tokio::test]
async fn failures_have_the_reference_texts() {
    let site = Site::of(&[("/403", status(403)), ("/500", status(500))]).await;
    let web = Web::fetch(&["--timeout-sec", "20"]).await;
    for code in [403, 404, 500] {
        let url = site.url(&format!("/{code}"));
        let text = web.failure("fetch", json!({ "url": url })).await;
        assert_eq!(text, format!("Error executing tool fetch: Failed to fetch {url} - status code {code}"));
    }
    let closed = "http://127.0.0.1:9/x";
    let web = Web::fetch(&["--ignore-robots-txt"]).await;
    let text = web.failure("fetch", json!({ "url": closed })).await;
    assert!(
        text.starts_with(&format!("Error executing tool fetch: Failed to fetch {closed}: failed to connect")),
        "{text}"
    );
    for (arguments, part) in [
        (json!({}), "`url` is missing"),
        (json!({ "url": "no address" }), "this is no URL"),
        (
            json!({ "url": "http://a.example/", "max_length": 0 }),
            "`max_length` must be a whole number from 1 to 999999",
        ),
        (json!({ "url": "http://a.example/", "max_length": "10" }), "`max_length` must be"),
        (json!({ "url": "http://a.example/", "start_index": -1 }), "`start_index` must be"),
        (json!({ "url": "http://a.example/", "raw": "yes" }), "`raw` must be true or false"),
        (json!({ "url": "http://a.example/", "mode": "quick" }), "`mode` must be one of readable, full, raw"),
    ] {
        let text = web.failure("fetch", arguments.clone()).await;
        assert!(text.contains(part), "{arguments}: {text}");
    }
}

#[tokio::test]
async fn redirects_are_followed_within_bounds_and_checked_by_robots() {
    let site = Site::start(|asked| match asked.target.as_str() {
        "/robots.txt" => page("text/plain", "User-agent: *\nDisallow: /private"),
        "/loop" => redirect("/loop"),
        "/to-private" => redirect("/private/x"),
        "/bad" => redirect("http://[broken"),
        _ => html("<p>here"),
    })
    .await;
    let web = Web::fetch(&[]).await;
    let text = web.failure("fetch", json!({ "url": site.url("/loop") })).await;
    assert!(text.contains("more than 20 redirects"), "{text}");
    let refused = web.failure("fetch", json!({ "url": site.url("/to-private") })).await;
    assert!(refused.contains("specifies that autonomous fetching of this page is not allowed"), "{refused}");
    assert!(!site.targets().contains(&"/private/x".to_owned()));
    let bad = web.failure("fetch", json!({ "url": site.url("/bad") })).await;
    assert!(bad.contains("redirects to `http://[broken`, which is no URL"), "{bad}");
    let ignoring = Web::fetch(&["--ignore-robots-txt"]).await;
    assert!(ignoring.page(&site.url("/to-private")).await.contains("here"));
}

#[tokio::test]
async fn a_busy_server_is_waited_for_and_cookies_are_kept() {
    let tries = std::sync::atomic::AtomicU32::new(0);
    let site = Site::start(move |asked| match asked.target.as_str() {
        "/busy" if tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 => {
            with_headers(429, &[("Retry-After", "0")], "")
        }
        "/busy" => {
            with_headers(200, &[("Content-Type", "text/html"), ("Set-Cookie", "seen=1; Path=/")], "<p>open")
        }
        "/closed" => with_headers(503, &[("Retry-After", "7200")], ""),
        "/cookie" => {
            html(&format!("<p>cookie: {}", asked.headers.get("cookie").cloned().unwrap_or_default()))
        }
        _ => status(404),
    })
    .await;
    let web = Web::fetch(&[]).await;
    assert!(web.page(&site.url("/busy")).await.contains("open"));
    assert!(web.page(&site.url("/cookie")).await.contains("cookie: seen=1"));
    let text = web.failure("fetch", json!({ "url": site.url("/closed") })).await;
    assert!(text.contains("status code 503") && text.contains("7200 s"), "{text}");
}

#[tokio::test]
async fn a_host_has_six_requests_at_once_and_the_delay_that_it_asks_for() {
    let slow = Site::start(|_| Reply::ThenSilence(Vec::new())).await;
    let other = Site::of(&[("/", html("<p>elsewhere"))]).await;
    let web = Web::fetch(&["--ignore-robots-txt", "--timeout-sec", "5"]).await;
    let calls = (0..10).map(|number| {
        let url = slow.url(&format!("/{number}"));
        web.failure("fetch", json!({ "url": url }))
    });
    let watching = async {
        while slow.asked().len() < 6 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Another host is not kept waiting, and what its call takes is time enough for a seventh.
        assert!(web.page(&other.url("/")).await.contains("elsewhere"));
        assert_eq!(slow.asked().len(), 6);
    };
    let (ended, ()) = tokio::join!(futures_util::future::join_all(calls), watching);
    assert!(ended.iter().all(|text| text.contains("within 5 s")), "{ended:?}");

    let polite = Site::of(&[
        ("/robots.txt", page("text/plain", "User-agent: *\nCrawl-delay: 1")),
        ("/", html("<p>here")),
    ])
    .await;
    let web = Web::fetch(&[]).await;
    let start = Instant::now();
    for _ in 0..2 {
        assert!(web.page(&polite.url("/")).await.contains("here"));
    }
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
}

#[tokio::test]
async fn samples_share_a_cache_and_ask_again_with_conditions() {
    let site = Site::start(|asked| match asked.target.as_str() {
        "/kept" => {
            with_headers(200, &[("Content-Type", "text/html"), ("Cache-Control", "max-age=60")], "<p>kept")
        }
        "/asked" if asked.headers.get("if-none-match").is_some_and(|tag| tag == "\"1\"") => {
            with_headers(304, &[], "")
        }
        "/asked" => {
            let headers = [("Content-Type", "text/html"), ("Cache-Control", "no-cache"), ("ETag", "\"1\"")];
            with_headers(200, &headers, "<p>asked")
        }
        _ => status(404),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    for round in 0..2 {
        let web =
            Web::start(FETCH, &["--allow-private-ips", "--ignore-robots-txt"], &[("GAIA_WEB_CACHE", cache)])
                .await;
        assert!(web.page(&site.url("/kept")).await.contains("kept"));
        assert!(web.page(&site.url("/asked")).await.contains("asked"));
        let from: Vec<_> = web.logs.with("request").iter().map(|line| line["from"].clone()).collect();
        let expected = if round == 0 { ["network", "network"] } else { ["cache", "cache, still right"] };
        assert_eq!(from, expected);
    }
    assert_eq!(site.targets(), ["/kept", "/asked", "/asked"]);
}

#[tokio::test]
async fn each_request_is_logged_without_secrets() {
    let site = Site::of(&[("/x?api_key=SECRET&q=1", html("<p>x"))]).await;
    let web = Web::fetch(&[]).await;
    web.page(&site.url("/x?api_key=SECRET&q=1")).await;
    web.failure("fetch", json!({ "url": site.url("/none") })).await;
    web.failure("fetch", json!({ "url": "http://10.0.0.1/" })).await;
    let all = web.logs.all();
    assert!(!format!("{all:?}").contains("SECRET"), "{all:?}");
    let requests = web.logs.with("request");
    let seen: Vec<(String, i64)> = requests
        .iter()
        .map(|line| (line["for"].as_str().unwrap().to_owned(), line["status"].as_i64().unwrap_or(-1)))
        .collect();
    let expected = [("robots.txt", 404), ("page", 200), ("page", 404), ("page", -1)];
    assert_eq!(seen, expected.map(|(purpose, status)| (purpose.to_owned(), status)));
    assert!(requests[1]["ms"].is_u64() && requests[1]["bytes"] == 4);
    assert!(requests[3]["error"].as_str().unwrap().contains("not a public address"));
    assert!(web.logs.with("integrity")[0].as_str().unwrap().contains("built-in block-list version"));
}

#[tokio::test]
async fn blocked_places_are_not_opened_and_not_redirected_to() {
    let site = Site::of(&[("/", redirect("https://huggingface.co/datasets/x"))]).await;
    let web = Web::fetch(&["--ignore-robots-txt"]).await;
    for url in ["https://huggingface.co/datasets/gaia-benchmark/GAIA".to_owned(), site.url("/")] {
        let text = web.failure("fetch", json!({ "url": url })).await;
        assert!(text.contains("is on this server's block-list (huggingface.co)"), "{text}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine.toml");
    fs_err::write(&mine, "version = \"1\"\n[[block]]\nwhy = \"test\"\nplaces = [\"127.0.0.1/secret\"]\n")
        .unwrap();
    let args = ["--ignore-robots-txt", "--no-block-list", "--block-list", mine.to_str().unwrap()];
    let web = Web::fetch(&args).await;
    let text = web.failure("fetch", json!({ "url": site.url("/secret/x") })).await;
    assert!(text.contains("127.0.0.1/secret"), "{text}");
    let said = web.logs.with("integrity")[0].as_str().unwrap().to_owned();
    assert!(said.contains("mine.toml version 1") && !said.contains("built-in"), "{said}");
}

#[tokio::test]
async fn a_page_with_the_question_is_flagged() {
    let question = "Of the lighthouses that the harbour board of Varn listed in its 1911 report, which one had the \
                    tallest tower, and how high above the sea did its lamp stand?";
    let site = Site::of(&[
        ("/copy", html(&format!("<p>Q17: {question}</p><p>A: secret</p>"))),
        ("/source", html("<p>The harbour board of Varn listed the lighthouses in its 1911 report.</p>")),
    ])
    .await;
    let args = ["--allow-private-ips", "--ignore-robots-txt"];
    let web = Web::start(FETCH, &args, &[("GAIA_QUESTION", question)]).await;
    for (path, contaminated) in [("/copy", true), ("/source", false)] {
        let result = web.call("fetch", json!({ "url": site.url(path) })).await;
        assert_eq!(result.structured_content.unwrap()["contaminated"], contaminated, "{path}");
    }
    let flagged = web.logs.with("contaminated");
    assert_eq!(flagged.len(), 1);
    assert_eq!(flagged[0]["url"], site.url("/copy"));
}

#[tokio::test]
async fn find_links_and_archive() {
    let body = format!(
        "<html><body><nav><a href=/menu>Menu of reports</a></nav><main><p>{}The lamp of Varn stood 44 m above the sea. \
         <a href='/report.pdf'>Annual report</a></p></main></body></html>",
        "Filler words. ".repeat(400)
    );
    let site = Site::start(move |asked| match asked.target.as_str() {
        "/page" => html(&body),
        "/web/20190715000000id_/http://a.example/x?y=1" => {
            redirect("/web/20190620101112id_/http://a.example/x?y=1")
        }
        "/web/20190620101112id_/http://a.example/x?y=1" => html("<p>As it was. <a href='/then'>then</a></p>"),
        _ => status(404),
    })
    .await;
    let web = Web::fetch(&["--archive-url", &site.url("/")]).await;
    let found =
        web.call("find", json!({ "url": site.url("/page"), "pattern": "lamp of varn", "context": 20 })).await;
    assert_eq!(found.structured_content.as_ref().unwrap()["total"], 1);
    assert!(all_text(&found).contains("The lamp of Varn stood 44 m above"), "{}", all_text(&found));
    let in_menu = web.call("find", json!({ "url": site.url("/page"), "pattern": "menu of reports" })).await;
    assert_eq!(in_menu.structured_content.unwrap()["total"], 1, "what the extraction left out is found, too");
    let none = web.call("find", json!({ "url": site.url("/page"), "pattern": "nowhere" })).await;
    assert!(all_text(&none).contains("is not in"), "{}", all_text(&none));
    let links = web.call("links", json!({ "url": site.url("/page"), "filter": "REPORT annual" })).await;
    let facts = links.structured_content.unwrap();
    assert_eq!(facts["links"], json!([format!("Annual report: {}", site.url("/report.pdf"))]));
    let old = web.call("archive", json!({ "url": "http://a.example/x?y=1", "date": "2019-07" })).await;
    let text = all_text(&old);
    assert!(text.contains("Contents of http://a.example/x?y=1 as it was on 2019-06-20:"), "{text}");
    assert!(text.contains("[then](http://a.example/then)"), "{text}");
    let gone = web.failure("archive", json!({ "url": "http://b.example/", "date": "2019" })).await;
    assert!(gone.contains("the archive has no copy of http://b.example/"), "{gone}");
}

#[tokio::test]
async fn both_eras_offer_the_same_tools_and_the_prompt() {
    let site =
        Site::of(&[("/robots.txt", page("text/plain", "User-agent: *\nDisallow: /")), ("/", html(ARTICLE))])
            .await;
    for era in ERAS {
        let (_server, client) = stdio(FETCH, &["--allow-private-ips"], era).await;
        let names: Vec<String> = client.tools().await.iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, ["fetch", "find", "links", "archive"], "{era:?}");
        let prompts = client.service.list_all_prompts().await.unwrap();
        assert_eq!(prompts[0].name, "fetch");
        let mut request = rmcp::model::GetPromptRequestParams::new("fetch");
        request.arguments = json!({ "url": site.url("/") }).as_object().cloned();
        let prompt = client.service.get_prompt(request).await.unwrap();
        let text = prompt.messages[0].content.as_text().unwrap().text.clone();
        assert!(
            text.contains("It is 31 metres tall."),
            "{text}: a person asked, so robots.txt does not matter"
        );
        let missing = client.service.get_prompt(rmcp::model::GetPromptRequestParams::new("fetch")).await;
        assert!(missing.unwrap_err().to_string().contains("`url` is required"));
    }
}

#[tokio::test]
async fn fifty_pages_at_once() {
    let site = Site::start(|asked| match asked.target.strip_prefix("/page/") {
        Some(number) => html(&format!("<p>This is page {number}.")),
        None => status(404),
    })
    .await;
    let web = Web::fetch(&[]).await;
    let calls = (0..50).map(|number| {
        let url = site.url(&format!("/page/{number}"));
        let web = &web;
        async move { web.page(&url).await.contains(&format!("This is page {number}.")) }
    });
    let right = futures_util::future::join_all(calls).await;
    assert_eq!(right.iter().filter(|right| **right).count(), 50);
}

#[tokio::test]
async fn a_modern_client_hears_the_log_when_it_asks_for_it() {
    let (_server, client) = stdio(FETCH, &["--allow-private-ips"], Era::Modern).await;
    let info = client.service.peer_info().unwrap();
    assert!(info.capabilities.logging.is_some() && info.capabilities.prompts.is_some());
    client.close().await;
}

#[tokio::test]
async fn over_http_both_eras_page_through_what_was_read_once() {
    let site = Site::of(&[("/text", page("text/plain", "abcdefghij"))]).await;
    let server = http(FETCH, &["--allow-private-ips", "--ignore-robots-txt"], &[]).await;
    for era in ERAS {
        let client = server.connect("/mcp", era).await;
        for (start, expected) in [(0, "abcd"), (4, "efgh"), (8, "ij")] {
            let arguments = json!({ "url": site.url("/text"), "start_index": start, "max_length": 4 });
            let result = client.try_call("fetch", arguments).await.unwrap();
            assert!(all_text(&result).contains(&format!("/text:\n{expected}")), "{era:?}: {result:?}");
        }
        let found = client.call("find", json!({ "url": site.url("/text"), "pattern": "def" })).await;
        assert_eq!(found.structured_content.unwrap()["total"], 1);
        // The first part is always read anew.
        assert_eq!(site.targets().len(), if era == Era::Legacy { 1 } else { 2 }, "{era:?}");
        client.close().await;
    }
}
