//! Both Brave servers and gaia-mcp-search against a stand-in for the interface: the same requests go out, the same
//! results come back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::peer::{Called, Peer};
use crate::site::{Asked, Reply, Site, page, with_headers};

const OFFICIAL: &str = "@brave/brave-search-mcp-server";
const OLDER: &str = "@modelcontextprotocol/server-brave-search";

fn results(url: &str) -> Value {
    json!([
        { "url": url, "title": "Lights <b>&</b> towers", "description": "Of \"Varn\" é", "extra_snippets": ["one", "two"],
          "age": "2 days ago", "breaking": true, "thumbnail": { "src": "http://img.example/1" },
          "video": { "duration": "03:21", "views": 7, "creator": "Ana" } },
        { "url": "http://b.example/2", "title": "Second", "description": "No more" },
    ])
}

fn answer(asked: &Asked) -> Reply {
    let json_reply = |value: Value| page("application/json", value.to_string());
    let path = asked.target.split('?').next().unwrap();
    if asked.target.contains("q=refused") {
        let body = json!({ "type": "ErrorResponse", "error": { "code": "VALIDATION", "status": 422 } });
        return with_headers(422, &[("Content-Type", "application/json")], body.to_string());
    }
    if asked.target.contains("q=nothing") && path.ends_with("place_search") {
        return json_reply(json!({ "type": "locations", "results": [] }));
    }
    if asked.target.contains("q=nothing") {
        return json_reply(
            json!({ "type": "search", "results": [], "extra": { "might_be_offensive": false } }),
        );
    }
    let has_places = asked.target.contains("q=places");
    json_reply(match path {
        "/res/v1/web/search" => {
            let mut reply = json!({
                "summarizer": { "key": "the-key" },
                "web": { "results": results("http://www.a.example/1") },
                "faq": { "results": [{ "question": "Q?", "answer": "A.", "title": "T", "url": "http://f.example/" }] },
                "discussions": { "mutated_by_goggles": false, "results": [{ "url": "http://d.example/", "data": { "n": 1 } }] },
                "news": { "mutated_by_goggles": false, "results": results("http://n.example/1") },
                "videos": { "results": [results("http://v.example/1")[0]] },
            });
            if has_places {
                reply["locations"] = json!({ "results": [{
                    "id": "p1", "title": "Café Orla", "price_range": "$$", "contact": { "telephone": "+1 23" },
                    "rating": { "ratingValue": 4.5, "reviewCount": 12 }, "postal_address": { "displayAddress": "Pier 4" },
                    "opening_hours": {
                        "current_day": [{ "full_name": "Monday", "opens": "09:00", "closes": "12:00" },
                                        { "full_name": "Monday", "opens": "13:00", "closes": "17:00" }],
                        "days": [[{ "full_name": "Tuesday", "opens": "09:00", "closes": "17:00" }]],
                    },
                }] });
            }
            reply
        }
        "/res/v1/local/descriptions" => json!({
            "results": [{ "id": "p1", "description": "By the water" }], "descriptions": { "p1": "By the water" },
        }),
        "/res/v1/local/pois" => json!({ "results": [{
            "id": "p1", "name": "Café Orla", "address": { "streetAddress": "Pier 4", "addressLocality": "Varn" },
            "rating": { "ratingValue": 4.5, "ratingCount": 12 }, "openingHours": ["Mo 9-17"],
        }] }),
        "/res/v1/images/search" => json!({ "extra": { "might_be_offensive": false }, "results": [{
            "title": "Tower", "url": "http://i.example/p", "page_fetched": "2024-05-01T10:00:00Z", "confidence": "high",
            "properties": { "url": "http://i.example/1.png", "width": 640, "height": 480 },
        }, { "title": "Broken" }] }),
        "/res/v1/llm/context" => json!({
            "grounding": { "generic": [{ "url": "http://a.example/1", "title": "T", "snippets": ["s"] }], "map": [] },
            "sources": { "http://a.example/1": { "title": "T", "hostname": "a.example" } },
        }),
        "/res/v1/local/place_search" => json!({
            "type": "locations", "query": { "original": "coffee" },
            "location": { "coordinates": [58.2, 6.5], "name": "Varn", "country": "no" },
            "results": [{
                "type": "location_result", "title": "Café Orla", "url": "http://orla.example/", "description": "By the water",
                "is_source_local": true, "is_source_both": false, "id": "p1", "provider_url": "http://p.example/1", "coordinates": [58.2, 6.5], "zoom_level": 15,
                "postal_address": { "type": "PostalAddress", "displayAddress": "Pier 4" },
                "rating": { "ratingValue": 4.5, "reviewCount": 12 }, "distance": { "value": 0.4, "units": "km" },
            }],
        }),
        "/res/v1/summarizer/search" => json!({ "status": "complete", "summary": [
            { "type": "token", "data": "All in all" }, { "type": "inline_reference", "data": { "url": "http://a.example/1" } },
            { "type": "other" },
        ] }),
        _ => json!({ "results": results("http://n.example/1") }),
    })
}

/// A request: its path, its parameters, and the headers that mean something.
fn request(asked: &Asked) -> (String, BTreeSet<String>, BTreeMap<String, String>) {
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let meant = ["x-subscription-token", "accept", "x-loc-city", "cache-control", "api-version"];
    let headers = asked.headers.iter().filter(|(name, _)| meant.contains(&name.as_str()));
    (
        path.to_owned(),
        query.split('&').map(|part| part.replace("%20", "+")).collect(),
        headers.map(|(name, value)| (name.clone(), value.clone())).collect(),
    )
}

/// Without what ours knows beside it.
fn without_extras(called: &Called) -> Vec<Value> {
    let parse = |text: &String| {
        let mut value: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        if let Some(object) = value.as_object_mut() {
            object.remove("date");
            object.remove("site");
        }
        value
    };
    called.texts.iter().map(parse).collect()
}

async fn compare(tool: &str, arguments: Value, theirs: &mut Peer, ours: &mut Peer, sites: [&Site; 2]) {
    let before = sites.map(|site| site.asked().len());
    let (reference, own) =
        (theirs.call(tool, arguments.clone()).await, ours.call(tool, arguments.clone()).await);
    let what = format!("{tool} {arguments}");
    let sent =
        |index: usize| -> Vec<_> { sites[index].asked()[before[index]..].iter().map(request).collect() };
    assert_eq!(sent(1), sent(0), "{what}: requests");
    assert_eq!(without_extras(&own), without_extras(&reference), "{what}: results");
    assert_eq!(own.structured, reference.structured, "{what}: structured");
    assert_eq!(own.is_error, reference.is_error, "{what}");
}

#[tokio::test]
async fn the_official_servers_tools_send_and_return_the_same() {
    let sites = [Site::start(answer).await, Site::start(answer).await];
    let mut theirs = Peer::npx(OFFICIAL, &sites[0].url("")).await;
    let args = ["--brave-url", &sites[1].url(""), "--requests-per-sec", "0"];
    let mut ours = Peer::ours("gaia-mcp-search", &args, &[("BRAVE_API_KEY", "key")]).await;
    for (tool, arguments) in [
        ("brave_web_search", json!({ "query": "lights of varn" })),
        (
            "brave_web_search",
            json!({ "query": "x", "count": 5, "offset": 2, "freshness": "pw", "country": "DE",
            "search_lang": "de", "ui_lang": "de-DE", "safesearch": "off", "text_decorations": false, "spellcheck": false,
            "result_filter": ["web", "news"], "units": "metric", "extra_snippets": true }),
        ),
        ("brave_web_search", json!({ "query": "x", "summary": true })),
        (
            "brave_web_search",
            json!({ "query": "x", "freshness": "2022-04-01to2022-07-30",
            "goggles": ["https://g.example/1", "http://bad.example/", "$boost=2"] }),
        ),
        ("brave_web_search", json!({ "query": "nothing" })),
        ("brave_local_search", json!({ "query": "places by the water" })),
        ("brave_local_search", json!({ "query": "no such" })),
        ("brave_video_search", json!({ "query": "x", "count": 3 })),
        ("brave_image_search", json!({ "query": "x", "safesearch": "off" })),
        ("brave_news_search", json!({ "query": "x", "extra_snippets": true })),
        ("brave_news_search", json!({ "query": "nothing" })),
        ("brave_summarizer", json!({ "key": "the-key", "inline_references": true })),
        (
            "brave_llm_context",
            json!({ "query": "x", "maximum_number_of_urls": 3, "context_threshold_mode": "strict",
            "enable_local": true, "x-loc-city": "Varn", "cache-control": "no-cache", "api-version": "2024-01-01" }),
        ),
        ("brave_place_search", json!({ "location": "varn norland" })),
        (
            "brave_place_search",
            json!({ "query": "coffee", "latitude": 58.2, "longitude": -6.5, "radius": 250.5, "count": 7, "country": "NO",
            "search_lang": "nb", "ui_lang": "en-US", "units": "imperial", "safesearch": "off", "spellcheck": false,
            "geoloc": "token", "cache-control": "no-cache", "api-version": "2024-01-01" }),
        ),
        ("brave_place_search", json!({ "query": "nothing" })),
    ] {
        compare(tool, arguments, &mut theirs, &mut ours, [&sites[0], &sites[1]]).await;
    }
    // Ours adds what to do.
    let refused = json!({ "query": "refused" });
    let (reference, own) = (
        theirs.call("brave_web_search", refused.clone()).await,
        ours.call("brave_web_search", refused).await,
    );
    assert!(reference.is_error && own.is_error);
    assert!(own.text().starts_with(&reference.text()), "{own:?} {reference:?}");
    for wrong in [
        json!({}),
        json!({ "query": "x", "count": 21 }),
        json!({ "query": "x", "offset": 10 }),
        json!({ "query": "x", "safesearch": "maybe" }),
        json!({ "query": "x", "freshness": "yesterday" }),
        json!({ "query": "x", "result_filter": ["maps"] }),
        json!({ "query": "w ".repeat(51) }),
        json!({ "query": "w".repeat(401) }),
    ] {
        for peer in [&mut theirs, &mut ours] {
            assert!(peer.call("brave_web_search", wrong.clone()).await.is_error, "{wrong}");
        }
    }
    for (tool, wrong) in [
        ("brave_place_search", json!({ "location": "varn", "count": 51 })),
        ("brave_place_search", json!({ "latitude": 91, "longitude": 0 })),
        ("brave_news_search", json!({ "query": "x", "count": 51 })),
        ("brave_video_search", json!({ "query": "x", "freshness": "soon" })),
        ("brave_image_search", json!({ "query": "x", "safesearch": "moderate" })),
        ("brave_summarizer", json!({})),
        ("brave_llm_context", json!({ "query": "x", "maximum_number_of_tokens": 1 })),
        ("brave_local_search", json!({ "query": "x", "offset": 10 })),
    ] {
        for peer in [&mut theirs, &mut ours] {
            let called = peer.call(tool, wrong.clone()).await;
            assert!(called.is_error, "{tool} {wrong}: {called:?}");
        }
    }
}

#[tokio::test]
async fn the_official_servers_parameters_are_all_there() {
    let site = Site::start(answer).await;
    let mut theirs = Peer::npx(OFFICIAL, &site.url("")).await;
    let mut ours = Peer::ours("gaia-mcp-search", &[], &[("BRAVE_API_KEY", "key")]).await;
    let (reference, own) = (theirs.tools().await, ours.tools().await);
    let names =
        |tools: &[Value]| tools.iter().map(|tool| tool["name"].to_string()).collect::<BTreeSet<_>>().len();
    assert_eq!(names(&own), names(&reference));
    for tool in &reference {
        let mine = own.iter().find(|mine| mine["name"] == tool["name"]).unwrap();
        let (theirs, ours) = (&tool["inputSchema"], &mine["inputSchema"]);
        assert_eq!(ours.get("required"), theirs.get("required"), "{}", tool["name"]);
        let keys = |schema: &Value| {
            schema["properties"].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
        };
        assert_eq!(keys(ours), keys(theirs), "{}", tool["name"]);
        for (name, schema) in theirs["properties"].as_object().unwrap() {
            for bound in ["minimum", "maximum"] {
                if schema["type"] == "integer" {
                    assert_eq!(
                        ours["properties"][name].get(bound),
                        schema.get(bound),
                        "{}: {name}",
                        tool["name"]
                    );
                }
            }
        }
    }
    let size = |tools: &[Value]| Value::Array(tools.to_vec()).to_string().len();
    assert!(size(&own) * 4 < size(&reference), "{} and {} bytes", size(&own), size(&reference));
}

#[tokio::test]
async fn the_older_servers_tools_send_and_return_the_same() {
    let sites = [Site::start(answer).await, Site::start(answer).await];
    let mut theirs = Peer::npx(OLDER, &sites[0].url("")).await;
    let args = ["--legacy", "--brave-url", &sites[1].url(""), "--requests-per-sec", "0"];
    let mut ours = Peer::ours("gaia-mcp-search", &args, &[("BRAVE_API_KEY", "key")]).await;
    for (tool, arguments) in [
        ("brave_web_search", json!({ "query": "lights of varn" })),
        ("brave_web_search", json!({ "query": "x", "count": 30, "offset": 3 })),
        ("brave_web_search", json!({ "query": "nothing" })),
        ("brave_web_search", json!({ "query": "refused" })),
        ("brave_local_search", json!({ "query": "places by the water" })),
        ("brave_local_search", json!({ "query": "places", "count": 2 })),
        ("brave_local_search", json!({ "query": "no such", "count": 40 })),
        ("brave_local_search", json!({ "query": "nothing" })),
        ("brave_local_search", json!({ "query": "refused" })),
    ] {
        compare(tool, arguments, &mut theirs, &mut ours, [&sites[0], &sites[1]]).await;
    }
    let places = ours.call("brave_local_search", json!({ "query": "places by the water" })).await;
    assert!(places.text().contains("Name: Café Orla\nAddress: Pier 4, Varn\n"), "{places:?}");
    for (tool, wrong) in [("brave_web_search", json!({})), ("brave_local_search", json!({ "query": 7 }))] {
        for peer in [&mut theirs, &mut ours] {
            let refused = peer.call(tool, wrong.clone()).await;
            assert!(refused.is_error && refused.text().starts_with("Error: "), "{tool} {wrong}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn the_older_servers_parameters_are_all_there() {
    let site = Site::start(answer).await;
    let mut theirs = Peer::npx(OLDER, &site.url("")).await;
    let mut ours = Peer::ours("gaia-mcp-search", &["--legacy"], &[("BRAVE_API_KEY", "key")]).await;
    let shape = |tools: Vec<Value>| -> Vec<(Value, Value, BTreeMap<String, Value>)> {
        let parameters = |tool: &Value| -> BTreeMap<String, Value> {
            let properties = tool["inputSchema"]["properties"].as_object().unwrap().iter();
            properties.map(|(name, schema)| (name.clone(), schema["type"].clone())).collect()
        };
        tools
            .iter()
            .map(|tool| (tool["name"].clone(), tool["inputSchema"]["required"].clone(), parameters(tool)))
            .collect()
    };
    assert_eq!(shape(ours.tools().await), shape(theirs.tools().await));
}
