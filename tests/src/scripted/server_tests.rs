use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};

use super::*;
use crate::scripted::{Fault, FaultRate, TaskScript, Turn, turn};

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Stream,
    Whole,
}

fn tools() -> Value {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    json!([tool("bash"), tool("submit")])
}

fn ask(mode: Mode) -> Value {
    let mut body =
        json!({"model": "m", "tools": tools(), "messages": [{"role": "user", "content": "question one"}]});
    if mode == Mode::Stream {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

async fn start(turns: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    ScriptedModel::start(Script::new().task("question one", turns), Options::default()).await.unwrap()
}

async fn post(model: &ScriptedModel, body: &Value) -> reqwest::Result<reqwest::Response> {
    // A client of its own: no connection is left over from a request before.
    let client = reqwest::Client::new();
    client.post(format!("{}/chat/completions", model.base_url)).json(body).send().await
}

async fn text(model: &ScriptedModel, body: &Value) -> String {
    post(model, body).await.unwrap().text().await.unwrap()
}

/// The data of each event; the last is `[DONE]` in an orderly stream.
fn events(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect()
}

#[derive(Default)]
struct Joined {
    content: String,
    reasoning: String,
    /// Id, name and arguments.
    calls: Vec<[String; 3]>,
    finish: Option<String>,
    usage: Option<Value>,
}

/// Joins the chunks of a stream as a client does.
fn joined(text: &str) -> Joined {
    let mut joined = Joined::default();
    for event in events(text).iter().filter(|event| *event != "[DONE]") {
        let chunk: Value = serde_json::from_str(event).unwrap();
        if !chunk["usage"].is_null() {
            joined.usage = Some(chunk["usage"].clone());
        }
        let choice = &chunk["choices"][0];
        joined.content += choice["delta"]["content"].as_str().unwrap_or_default();
        joined.reasoning += choice["delta"]["reasoning_content"].as_str().unwrap_or_default();
        if let Some(reason) = choice["finish_reason"].as_str() {
            joined.finish = Some(reason.to_owned());
        }
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap() as usize;
            joined.calls.resize(joined.calls.len().max(index + 1), Default::default());
            let function = &call["function"];
            for (whole, piece) in
                joined.calls[index].iter_mut().zip([&call["id"], &function["name"], &function["arguments"]])
            {
                *whole += piece.as_str().unwrap_or_default();
            }
        }
    }
    joined
}

fn said() -> Turn {
    turn::bash("echo 'größer' && wc -c a/long/enough/command")
        .with_content("I look at it.")
        .with_reasoning("Hm, hm.")
}

#[tokio::test]
async fn a_stream_and_a_whole_reply_say_the_same() {
    let model = start([said().and_call("submit", json!({"answer": "é"}))]).await;
    let streamed = text(&model, &ask(Mode::Stream)).await;
    let Joined { content, reasoning, calls, finish, usage } = joined(&streamed);
    let whole: Value = serde_json::from_str(&text(&model, &ask(Mode::Whole)).await).unwrap();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], content.as_str());
    assert_eq!(message["reasoning_content"], reasoning.as_str());
    for (index, [_, name, arguments]) in calls.iter().enumerate() {
        assert_eq!(message["tool_calls"][index]["function"], json!({"name": name, "arguments": arguments}));
    }
    assert_eq!(calls[0][2], r#"{"command":"echo 'größer' && wc -c a/long/enough/command"}"#);
    assert_eq!((calls.len(), finish.as_deref()), (2, Some("tool_calls")));
    assert_ne!(calls[0][0], calls[1][0]);
    assert!(usage.unwrap()["prompt_tokens"].as_u64().unwrap() > 40);
    assert_eq!(events(&streamed).last().map(String::as_str), Some("[DONE]"));
    let stats = model.stats();
    assert_eq!(
        (stats.requests, stats.ok, stats.streamed, stats.tasks["question one"].turns[&0]),
        (2, 2, 1, 2)
    );
    model.close().await;
}

#[tokio::test]
async fn usage_is_sent_only_when_asked_for() {
    let model = start([said()]).await;
    let mut body = ask(Mode::Stream);
    body.as_object_mut().unwrap().remove("stream_options");
    let streamed = text(&model, &body).await;
    assert!(!streamed.contains("usage"), "{streamed}");
    model.close().await;
}

#[tokio::test]
async fn a_task_is_played_to_its_end_from_the_conversation_alone() {
    let script = [turn::bash("cat ${file}"), turn::submit("${answer}")];
    let mut body = ask(Mode::Whole);
    body["messages"][0]["content"] = json!("question one, see /shared_files/t1.csv.");
    for round in ["first", "after a restart"] {
        let model = start(script.clone()).await;
        let reply: Value = serde_json::from_str(&text(&model, &body).await).unwrap();
        let message = reply["choices"][0]["message"].clone();
        let call = &message["tool_calls"][0];
        if round == "first" {
            assert_eq!(call["function"]["arguments"], r#"{"command":"cat /shared_files/t1.csv"}"#);
            let output = json!({"role": "tool", "tool_call_id": call["id"], "content": "a,b\nANSWER: 42\n[exit code 0]"});
            body["messages"].as_array_mut().unwrap().extend([message, output]);
        } else {
            assert_eq!(call["function"]["name"], "submit");
            assert_eq!(call["function"]["arguments"], r#"{"answer":"42"}"#);
        }
        model.close().await;
    }
}

#[tokio::test]
async fn a_turn_without_end_is_repeated() {
    let task = TaskScript::new("question one", [turn::text("never")]).repeat_last().forced_answer("maybe 3");
    let model = ScriptedModel::start(Script::new().with(task), Options::default()).await.unwrap();
    let mut body = ask(Mode::Whole);
    for _ in 0..3 {
        let reply: Value = serde_json::from_str(&text(&model, &body).await).unwrap();
        assert_eq!(reply["choices"][0]["message"]["content"], "never");
        let messages = body["messages"].as_array_mut().unwrap();
        messages
            .extend([reply["choices"][0]["message"].clone(), json!({"role": "user", "content": "go on"})]);
    }
    body.as_object_mut().unwrap().remove("tools");
    assert!(text(&model, &body).await.contains("maybe 3"));
    assert_eq!((model.stats().past_end, model.stats().tasks["question one"].forced), (0, 1));
    model.close().await;
}

#[tokio::test]
async fn a_violation_is_refused_and_counted() {
    let model = start([said()]).await;
    let mut body = ask(Mode::Stream);
    body["messages"][0]["role"] = json!("tool");
    let response = post(&model, &body).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let error: Value = response.json().await.unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("has no tool_call_id"), "{message}");
    assert_eq!(model.stats().violations, [message]);
    assert_eq!(model.requests()[0].violation.as_deref(), Some(message));
    let client = reqwest::Client::new();
    let broken = client.post(format!("{}/chat/completions", model.base_url)).body("{").send().await.unwrap();
    assert_eq!((broken.status(), model.stats().violations.len()), (StatusCode::BAD_REQUEST, 2));
    model.close().await;
}

#[tokio::test]
async fn the_key_is_checked_and_never_kept() {
    let options = Options { api_key: ApiKey::Required("k-123".to_owned()), ..Options::default() };
    let model = ScriptedModel::start(Script::new().task("", [said()]), options).await.unwrap();
    let client = reqwest::Client::new();
    let url = format!("{}/chat/completions", model.base_url);
    for (key, status) in [(None, 401), (Some("wrong"), 401), (Some("k-123"), 200)] {
        let request = client.post(&url).json(&ask(Mode::Whole));
        let request = key.into_iter().fold(request, |request, key| request.bearer_auth(key));
        assert_eq!(request.send().await.unwrap().status(), status, "{key:?}");
    }
    assert_eq!(model.stats().unauthorized, 2);
    assert!(!format!("{model:?} {:?}", model.requests()).contains("k-123"));
    model.close().await;
}

#[tokio::test]
async fn faults_that_are_statuses() {
    for (fault, status, part) in [
        (Fault::RateLimited, 429, "rate_limit_exceeded"),
        (Fault::RateLimitedFraction, 429, "rate_limit_exceeded"),
        (Fault::RateLimitedDate, 429, "rate_limit_exceeded"),
        (Fault::RateLimitedHtml, 429, "<html>"),
        (Fault::ServerError, 500, "server_error"),
        (Fault::Html, 502, "<html>"),
        (Fault::Unavailable, 503, "overloaded"),
        (Fault::NumericCode, 503, "\"code\":503"),
        (Fault::Unauthorized, 401, "invalid_api_key"),
        (Fault::ModelNotFound, 404, "model_not_found"),
        (Fault::Overflow, 400, "8192"),
        (Fault::RefusedContent, 400, "inappropriate"),
    ] {
        let model = start([said().with_faults([fault])]).await;
        let response = post(&model, &ask(Mode::Stream)).await.unwrap();
        let retry_after =
            response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(response.status(), status, "{fault:?}");
        let body = response.text().await.unwrap();
        assert!(body.contains(part), "{fault:?}: {body}");
        match fault {
            Fault::RateLimited => assert_eq!(retry_after.as_deref(), Some("1")),
            Fault::RateLimitedFraction => assert_eq!(retry_after.as_deref(), Some("0.25")),
            Fault::RateLimitedDate => assert!(retry_after.unwrap().ends_with(" GMT")),
            _ => assert_eq!(retry_after, None),
        }
        // The same turn is good at the second attempt.
        assert_eq!(joined(&text(&model, &ask(Mode::Stream)).await).calls.len(), 1);
        let stats = model.stats();
        assert_eq!((stats.faults[&fault.name()], stats.ok), (1, 1));
        model.close().await;
    }
}

#[tokio::test]
async fn faults_of_a_stream() {
    for fault in [Fault::ErrorEvent, Fault::NoDone, Fault::NoFinish, Fault::Empty, Fault::EmptyBody] {
        let model = start([said().with_faults([fault])]).await;
        let streamed = text(&model, &ask(Mode::Stream)).await;
        let done = streamed.contains("data: [DONE]");
        let Joined { content, calls, finish, usage, .. } = joined(&streamed);
        match fault {
            Fault::ErrorEvent => {
                let last: Value = serde_json::from_str(events(&streamed).last().unwrap()).unwrap();
                assert_eq!(last["error"]["type"], "server_error");
                assert!(!done && finish.is_none() && !content.is_empty());
            }
            Fault::NoDone => assert!(!done && finish.is_some() && calls.len() == 1),
            Fault::NoFinish => assert!(!done && finish.is_none() && !content.is_empty()),
            Fault::Empty => assert!(done && finish.is_none() && content.is_empty() && usage.is_some()),
            _ => assert_eq!(streamed, ""),
        }
        assert_eq!(model.stats().ok, u64::from(fault == Fault::NoDone), "{fault:?}");
        model.close().await;
    }
}

#[tokio::test]
async fn faults_of_a_whole_reply() {
    for (fault, pointer, expected) in [
        (Fault::ErrorEvent, "/error/type", json!("server_error")),
        (Fault::NoFinish, "/choices/0/finish_reason", Value::Null),
        (Fault::Empty, "/choices", json!([])),
    ] {
        let model = start([said().with_faults([fault])]).await;
        let whole: Value = serde_json::from_str(&text(&model, &ask(Mode::Whole)).await).unwrap();
        assert_eq!(whole.pointer(pointer), Some(&expected), "{fault:?}");
        model.close().await;
    }
}

#[tokio::test]
async fn a_cut_comes_in_the_middle_and_a_reset_before_any_byte() {
    for mode in [Mode::Stream, Mode::Whole] {
        let model = start([said().with_faults([Fault::Cut, Fault::Reset])]).await;
        let mut response = post(&model, &ask(mode)).await.unwrap();
        let mut bytes = Vec::new();
        let error = loop {
            match response.chunk().await {
                Ok(Some(piece)) => bytes.extend(piece),
                Ok(None) => panic!("the body ended in order"),
                Err(error) => break error,
            }
        };
        assert!(!bytes.is_empty() && !String::from_utf8_lossy(&bytes).contains("[DONE]"), "{error}");
        let error = post(&model, &ask(mode)).await.unwrap_err();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        assert!(cause.to_string().contains("reset by peer"), "{cause}");
        assert!(post(&model, &ask(mode)).await.unwrap().status().is_success());
        model.close().await;
    }
}

#[tokio::test]
async fn silence_lasts_until_the_client_leaves_or_the_server_closes() {
    let model = start([said().with_faults([Fault::Silent, Fault::Silent])]).await;
    let mut response = post(&model, &ask(Mode::Stream)).await.unwrap();
    assert_eq!(response.status(), 200);
    let waited = tokio::time::timeout(Duration::from_millis(100), response.chunk()).await;
    assert!(waited.is_err(), "{waited:?}");
    drop(response);
    model.wait_until(|stats| stats.in_flight == 0).await;
    let mut response = post(&model, &ask(Mode::Stream)).await.unwrap();
    model.close().await;
    assert!(response.chunk().await.is_err());
}

#[tokio::test]
async fn a_slow_reply_is_whole() {
    let model =
        start([turn::text("a reply of some words, long enough for pieces").with_faults([Fault::Slow])]).await;
    let began = Instant::now();
    let Joined { content, finish, .. } = joined(&text(&model, &ask(Mode::Stream)).await);
    assert!(began.elapsed() >= Duration::from_millis(120), "{:?}", began.elapsed());
    assert_eq!((content.len(), finish.as_deref(), model.stats().ok), (45, Some("stop"), 1));
    model.close().await;
}

#[tokio::test]
async fn broken_arguments_do_not_advance_the_script() {
    let model = start([turn::bash("echo 1").with_faults([Fault::BadArguments]), turn::bash("echo 2")]).await;
    let mut body = ask(Mode::Whole);
    let reply: Value = serde_json::from_str(&text(&model, &body).await).unwrap();
    let mut message = reply["choices"][0]["message"].clone();
    let arguments = message["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(arguments).is_err(), "{arguments}");
    message["tool_calls"][0]["function"]["arguments"] = json!("{}");
    let answer =
        json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "not JSON"});
    body["messages"].as_array_mut().unwrap().extend([message, answer]);
    assert!(text(&model, &body).await.contains("echo 1"));
    model.close().await;
}

#[tokio::test]
async fn random_faults_are_the_same_in_every_order() {
    let rates: Vec<FaultRate> = ["500=0.3", "429=0.2"].iter().map(|text| text.parse().unwrap()).collect();
    let questions: Vec<_> = (0..20).map(|n| format!("question {n}.")).collect();
    let mut seen = Vec::new();
    for reversed in [false, true] {
        let script = questions.iter().fold(Script::new(), |script, q| script.task(q, [turn::text("x")]));
        let options = Options { faults: rates.clone(), seed: 5, ..Options::default() };
        let model = ScriptedModel::start(script, options).await.unwrap();
        let mut order = questions.clone();
        if reversed {
            order.reverse();
        }
        let mut statuses = Vec::new();
        for question in &order {
            let body = json!({"model": "m", "messages": [{"role": "user", "content": question}]});
            statuses.push((question.clone(), post(&model, &body).await.unwrap().status().as_u16()));
        }
        statuses.sort();
        seen.push(statuses);
        model.close().await;
    }
    assert_eq!(seen[0], seen[1]);
    for status in [200, 429, 500] {
        assert!(seen[0].iter().any(|(_, found)| *found == status), "no {status}");
    }
}

#[tokio::test]
async fn a_window_is_kept_and_all_dialects_can_be_joined() {
    let long = json!({"model": "m", "messages": [{"role": "user", "content": "question one ".repeat(200)}]});
    for dialect in [Dialect::OpenAi, Dialect::LlamaCpp, Dialect::LlamaCppPython, Dialect::OpenRouter] {
        let options = Options { dialect, window_tokens: Some(200), ..Options::default() };
        let model = ScriptedModel::start(Script::new().task("", [said()]), options).await.unwrap();
        let Joined { content, calls, finish, usage, .. } = joined(&text(&model, &ask(Mode::Stream)).await);
        assert_eq!((content.as_str(), finish.as_deref()), ("I look at it.", Some("tool_calls")));
        assert!(calls[0][2].ends_with("command\"}") && usage.is_some());
        assert_eq!(calls[0][1] == "bash", dialect != Dialect::LlamaCppPython);
        assert_eq!(post(&model, &long).await.unwrap().status(), 400);
        assert_eq!(model.stats().overflows, 1);
        model.close().await;
    }
}

#[tokio::test]
async fn requests_in_flight_are_counted() {
    let options = Options { latency: Duration::from_millis(200), ..Options::default() };
    let model = ScriptedModel::start(Script::new().task("", [said()]), options).await.unwrap();
    let body = ask(Mode::Stream);
    let (first, second, ()) = tokio::join!(
        text(&model, &body),
        text(&model, &body),
        model.wait_until(|stats| stats.in_flight == 2)
    );
    assert!(first.contains("[DONE]") && second.contains("[DONE]"));
    assert_eq!(model.stats().max_in_flight, 2);
    model.close().await;
}

#[tokio::test]
async fn models_statistics_and_requests_over_http() {
    let model = start([said()]).await;
    text(&model, &ask(Mode::Whole)).await;
    let root = model.base_url.trim_end_matches("/v1").to_owned();
    let get = async |path: &str| -> Value {
        reqwest::get(format!("{root}{path}")).await.unwrap().json().await.unwrap()
    };
    assert_eq!(get("/v1/models").await["data"][0]["id"], "scripted");
    assert_eq!(get("/stats").await["requests"], 1);
    assert_eq!(get("/requests?task=question%20one").await[0]["body"], ask(Mode::Whole));
    assert_eq!(get("/requests?task=other").await, json!([]));
    model.close().await;
}
