//! No secret of a config is found anywhere after a run whose servers give away all they were given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use gaia_tests::installed::clients;
use gaia_tests::scripted::{ApiKey, Options, Script, ScriptedModel, turn};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::gaia::{Desk, Ended, results};

const QUESTION: &str = "What do the servers say?";

/// Every way in which a config holds a secret, and the secret. None is part of another.
fn secrets() -> BTreeMap<&'static str, &'static str> {
    BTreeMap::from([
        ("api key of the model", "sk-apikey-5f1c8e2a"),
        ("literal in env", "envliteral-77aa12b9"),
        ("variable in env", "envvariable-0c44de81"),
        ("with a quote and a backslash", "quo\"te\\d-91b3"),
        ("in env_vars", "passed-on-6e0f3ac7"),
        ("in an env_file", "envfile-d2b85511"),
        ("in .env", "dotenv-4b19c6e0"),
        ("in an argument", "argument-38fd0a6c"),
        ("literal in a header", "headerliteral-c7e19b42"),
        ("variable in a header", "headervariable-1a90bb5d"),
        ("named by env_http_headers", "namedheader-b8410f3e"),
        ("bearer token", "bearertoken-e3c25d17"),
        ("in the query of an address", "querykey-2f7d9481"),
        ("password in an address", "urlpassword-9dd0c1e5"),
        // user:urlpassword-9dd0c1e5, as HTTP sends it.
        ("password in an address, encoded", "dXNlcjp1cmxwYXNzd29yZC05ZGQwYzFlNQ=="),
    ])
}

/// What an HTTP server answers.
#[derive(Clone, Copy, PartialEq)]
enum Manners {
    /// 401 to everything.
    Refuses,
    /// 401 to calls only.
    RefusesCalls,
    /// Results that hold the headers.
    Echoes,
    /// The same for a client that has a password instead of a token.
    EchoesPassword,
}

/// An MCP server over HTTP that answers with the headers and the address it was asked with.
async fn http_server(manners: Manners) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(manners);
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address.to_string()
}

async fn answer(State(manners): State<Manners>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1_000_000).await.unwrap();
    let given = format!("{} {}", parts.uri, echo(&parts.headers));
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = &request["id"];
    let refusal =
        (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer error=\"invalid_token\"")], given.clone());
    let result = match request["method"].as_str() {
        _ if manners == Manners::Refuses => return refusal.into_response(),
        Some("initialize") => json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "echo", "version": "1" } }),
        Some("tools/list") => {
            let name = match manners {
                Manners::Echoes => "headers",
                Manners::EchoesPassword => "password",
                _ => "refused",
            };
            json!({ "tools": [{ "name": name, "inputSchema": { "type": "object" } }] })
        }
        Some("tools/call") if manners == Manners::RefusesCalls => return refusal.into_response(),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": given }] }),
        Some(_) if id.is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => return (StatusCode::METHOD_NOT_ALLOWED, given).into_response(),
    };
    axum::Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response()
}

fn echo(headers: &HeaderMap) -> String {
    headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap_or("?"))).collect()
}

/// A desk with servers that leak in every way, and the environment that fills them.
async fn desk(model_url: &str) -> Desk {
    let secrets = secrets();
    let desk = Desk::new()
        .with_variable("MODEL_API_KEY", secrets["api key of the model"])
        .with_variable("IN_ENV", secrets["variable in env"])
        .with_variable("QUOTED", secrets["with a quote and a backslash"])
        .with_variable("PASSED_ON", secrets["in env_vars"])
        .with_variable("ARGUMENT_TOKEN", secrets["in an argument"])
        .with_variable("IN_HEADER", secrets["variable in a header"])
        .with_variable("NAMED_HEADER", secrets["named by env_http_headers"])
        .with_variable("BEARER", secrets["bearer token"])
        .with_variable("QUERY_KEY", secrets["in the query of an address"])
        .with_variable("URL_PASSWORD", secrets["password in an address"]);
    desk.write(".env", &format!("FROM_DOTENV={}\n", secrets["in .env"]));
    desk.write("leaky.env", &format!("FILE_TOKEN={}\n", secrets["in an env_file"]));
    let python = clients().join("python-2/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/secrets/leaky.py");
    let leaky = |how: &str| {
        json!({
            "command": python,
            "args": [script, how, "--token", "${ARGUMENT_TOKEN}"],
            "env": {
                "LITERAL_KEY": secrets["literal in env"],
                "UNSUSPECTED": "${IN_ENV}",
                "QUOTED": "${QUOTED}",
                "DOTENV": "${FROM_DOTENV}"
            },
            "env_vars": ["PASSED_ON"],
            "envFile": "leaky.env",
            "required": how != "dies"
        })
    };
    let remote = |address: &str, manners: Manners| {
        if manners == Manners::EchoesPassword {
            return json!({ "url": format!("http://user:${{URL_PASSWORD}}@{address}/mcp?key=${{QUERY_KEY}}") });
        }
        json!({
            "type": "http",
            "url": format!("http://{address}/mcp?key=${{QUERY_KEY}}"),
            "headers": {
                "X-Api-Key": secrets["literal in a header"],
                "X-Plain": "${IN_HEADER}"
            },
            "env_http_headers": { "X-Named": "NAMED_HEADER" },
            "bearer_token_env_var": "BEARER",
            "protocol": "2025",
            "required": manners != Manners::Refuses
        })
    };
    let refuses = http_server(Manners::Refuses).await;
    let refuses_calls = http_server(Manners::RefusesCalls).await;
    let echoes = http_server(Manners::Echoes).await;
    let echoes_password = http_server(Manners::EchoesPassword).await;
    let servers = json!({ "mcpServers": {
        "leaky": leaky("stays"),
        "dies": leaky("dies"),
        "refuses": remote(&refuses, Manners::Refuses),
        "refusescalls": remote(&refuses_calls, Manners::RefusesCalls),
        "echoes": remote(&echoes, Manners::Echoes),
        "basic": remote(&echoes_password, Manners::EchoesPassword),
    } });
    desk.write("mcp.json", &servers.to_string());
    desk.write(
        "c.toml",
        &format!(
            "mcp_config = [\"mcp.json\"]\n[dataset]\npath = \"samples\"\n[model]\nname = \"m\"\nbase_url = \"{model_url}\"\n\
             api_key_env = \"MODEL_API_KEY\"\nmax_retries = 1\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n"
        ),
    );
    desk.dataset(&[("t", QUESTION, 1, "blue")]);
    desk
}

/// The secrets that are in the bytes, as they are or as JSON writes them.
fn found<'a>(bytes: &[u8], secrets: &BTreeMap<&'a str, &str>) -> Vec<&'a str> {
    let has = |needle: &str| bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
    let escaped = |secret: &str| {
        let text = Value::from(secret).to_string();
        let twice = Value::from(text.clone()).to_string();
        [text.trim_matches('"').to_owned(), twice.trim_matches(['"', '\\']).to_owned()]
    };
    secrets
        .iter()
        .filter(|(_, secret)| has(secret) || escaped(secret).iter().any(|escaped| has(escaped)))
        .map(|(what, _)| *what)
        .collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[track_caller]
fn assert_clean(what: &str, bytes: &[u8]) {
    let found = found(bytes, &secrets());
    assert!(found.is_empty(), "{what} holds {found:?}:\n{}", String::from_utf8_lossy(bytes));
}

fn assert_ended_clean(what: &str, ended: &Ended) {
    assert_clean(&format!("stdout of {what}"), ended.stdout.as_bytes());
    assert_clean(&format!("stderr of {what}"), ended.stderr.as_bytes());
}

/// Looks at the arguments of all processes until the task is over. A user who puts a secret into `args` has put it
/// there; every other one has no business in a process list.
async fn watch_arguments(over: tokio_util::sync::CancellationToken) -> (usize, Vec<String>) {
    let mut secrets = secrets();
    secrets.remove("in an argument");
    let (mut looks, mut leaks) = (0, Vec::new());
    while !over.is_cancelled() {
        looks += 1;
        for entry in fs_err::read_dir("/proc").unwrap().flatten() {
            let Ok(line) = fs_err::read(entry.path().join("cmdline")) else { continue };
            for what in found(&line, &secrets) {
                leaks.push(format!("{what}: {}", String::from_utf8_lossy(&line)));
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    (looks, leaks)
}

#[tokio::test]
async fn no_secret_is_left_by_a_run_whose_servers_give_away_all_they_know() {
    let calls = [
        "result",
        "structured",
        "refuse",
        "log",
        "stderr",
        "noise",
        "headers",
        "password",
        "refused",
        "crash",
        "result",
    ];
    let turns = calls.iter().map(|tool| turn::call(tool, json!({}))).chain([turn::submit("blue")]);
    let options = Options {
        api_key: ApiKey::Required(secrets()["api key of the model"].to_owned()),
        ..Options::default()
    };
    let model = ScriptedModel::start(Script::new().task(QUESTION, turns), options).await.unwrap();
    let desk = desk(&model.base_url).await;

    let over = tokio_util::sync::CancellationToken::new();
    let watching = tokio::spawn(watch_arguments(over.clone()));
    let ended = desk.gaia(&["-vv", "run", "c.toml"]).await;
    over.cancel();
    let (looks, leaks) = watching.await.unwrap();
    assert!(looks > 5 && leaks.is_empty(), "{looks} looks: {leaks:#?}");
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert_ended_clean("gaia run", &ended);

    let run = desk.runs().pop().unwrap();
    let result = results(&run).pop().unwrap();
    assert_eq!((&result["status"], &result["tool_calls"]), (&json!("answered"), &json!(12)), "{result:#}");
    for file in files_below(&run) {
        assert_clean(&file.display().to_string(), &fs_err::read(&file).unwrap());
    }
    // What the model was sent, but for its own key.
    for request in model.requests() {
        assert_clean("a request to the model", request.body.to_string().as_bytes());
    }
    // The test can fail: the servers did say what they know, and it was hidden.
    let events = files_below(&run).into_iter().find(|file| file.ends_with("events.jsonl")).unwrap();
    let events = fs_err::read_to_string(events).unwrap();
    for name in
        ["LITERAL_KEY", "UNSUSPECTED", "PASSED_ON", "FILE_TOKEN", "x-api-key", "x-named", "authorization"]
    {
        assert!(events.contains(name), "`{name}` is not in the events");
    }
    model.close().await;
    for arguments in [
        &["report", "last", "--json"][..],
        &["export", "last", "--format", "csv"],
        &["tools", "c.toml"],
        &["doctor", "c.toml"],
        &["call", "c.toml", "leaky/result", "{}", "--json"],
        &["call", "c.toml", "leaky/crash", "{}"],
        &["call", "c.toml", "echoes/headers", "{}"],
        &["-vv", "call", "c.toml", "refusescalls/refused", "{}"],
    ] {
        let ended = desk.gaia(arguments).await;
        assert_ended_clean(&arguments.join(" "), &ended);
        assert!(!ended.stdout.is_empty(), "{arguments:?}: {ended:#?}");
    }
    nothing_leaks_out_of_exports(&desk).await;
    nothing_leaks_out_of_pages(&desk, &run).await;
}

/// Every format that a run is handed on in, as its reader finds it: unpacked.
async fn nothing_leaks_out_of_exports(desk: &Desk) {
    let identity = age::x25519::Identity::generate();
    desk.write("key.txt", age::secrecy::ExposeSecret::expose_secret(&identity.to_string()));
    let key = identity.to_public().to_string();
    for (name, format) in [
        ("samples.csv", &["csv"][..]),
        ("turns.csv", &["csv", "--table", "turns"]),
        ("run.json", &["json"]),
        ("samples.parquet", &["parquet"]),
        ("turns.parquet", &["parquet", "--table", "turns"]),
        ("run.eval", &["inspect"]),
        ("run.otel", &["otel"]),
        ("run.submission", &["submission"]),
        ("run.age", &["sealed", "--key", &key]),
    ] {
        let file = format!("exports/{name}");
        fs_err::create_dir_all(desk.path().join("exports")).unwrap();
        let ended = desk.gaia(&[&["export", "last", "--out", &file, "--format"][..], format].concat()).await;
        assert_eq!(ended.code, 0, "{name}: {ended:#?}");
        assert_ended_clean(name, &ended);
    }
    let unsealed =
        desk.gaia(&["unseal", "exports/run.age", "--identity", "key.txt", "--out", "exports/unsealed"]).await;
    assert_eq!(unsealed.code, 0, "{unsealed:#?}");
    assert_ended_clean("gaia unseal", &unsealed);

    let (mut looked_at, mut telling) = (0, 0);
    for file in files_below(&desk.path().join("exports")) {
        for content in contents(&file) {
            assert_clean(&file.display().to_string(), &content);
            looked_at += 1;
            telling += usize::from(content.windows(9).any(|part| part == b"[redacted"));
        }
    }
    // The test can fail: what the servers gave away is there, hidden.
    assert!(looked_at > 15 && telling >= 6, "{telling} of {looked_at} tell what the servers said");
}

/// A file as its reader finds it.
fn contents(path: &Path) -> Vec<Vec<u8>> {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let bytes = fs_err::read(path).unwrap();
    match path.extension().and_then(std::ffi::OsStr::to_str) {
        Some("parquet") => {
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
            let rows = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string());
            vec![rows.collect::<Vec<_>>().join("\n").into_bytes()]
        }
        Some("eval") => {
            let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
            let count = archive.len();
            let read = |index| {
                let mut content = Vec::new();
                std::io::Read::read_to_end(&mut archive.by_index(index).unwrap(), &mut content).unwrap();
                content
            };
            (0..count).map(read).collect()
        }
        Some("zst") => vec![zstd::decode_all(bytes.as_slice()).unwrap()],
        _ => vec![bytes],
    }
}

/// What `gaia view` shows of it.
async fn nothing_leaks_out_of_pages(desk: &Desk, run: &Path) {
    let mut child = desk.command(&["view", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.next_line().await.unwrap().unwrap();
    let address =
        said.split("http://").nth(1).unwrap().split_whitespace().next().unwrap().trim_end_matches('/');
    let id = run.file_name().unwrap().to_str().unwrap();
    let turns = (1..=12).flat_map(|turn| {
        [format!("/run/{id}/t/1?turn={turn}"), format!("/run/{id}/t/1/text/{turn}/result-0")]
    });
    let pages = ["/".to_owned(), format!("/run/{id}"), format!("/run/{id}/t/1?truth=shown")];
    let searches = ["redacted", "KEY"].map(|word| format!("/run/{id}/search?q={word}"));
    let mut telling = 0;
    for page in pages.into_iter().chain(turns).chain(searches) {
        let answer = reqwest::get(format!("http://{address}{page}")).await.unwrap();
        let text = answer.text().await.unwrap();
        assert_clean(&page, text.as_bytes());
        telling += usize::from(text.contains("[redacted"));
    }
    assert!(telling > 5, "{telling} pages tell what the servers said");
    child.kill().await.unwrap();
}

/// Each server alone and required, so that the run does not start: the error is for people, and goes into logs.
#[tokio::test]
async fn no_secret_is_in_the_error_of_a_run_that_does_not_start() {
    let model = ScriptedModel::start(Script::new(), Options::default()).await.unwrap();
    let desk = desk(&model.base_url).await;
    for server in ["dies", "refuses"] {
        let required = format!("mcp_servers.{server}.required=true");
        let ended = desk.gaia(&["-vv", "run", "c.toml", "--set", &required]).await;
        assert_eq!(ended.code, 4, "{ended:#?}");
        assert!(ended.stderr.contains(&format!("`{server}`")), "{ended:#?}");
        assert_ended_clean(server, &ended);
    }
    assert_eq!(desk.runs(), Vec::<PathBuf>::new());
    // A mistake in the config shows its line.
    let text = fs_err::read_to_string(desk.path().join("mcp.json")).unwrap();
    desk.write("mcp.json", &text.replacen("\"env_vars\"", "\"env_varz\"", 1));
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, 2, "{ended:#?}");
    assert!(ended.stderr.contains("`env_varz`"), "{ended:#?}");
    assert_ended_clean("a mistake", &ended);
    model.close().await;
}

/// Providers repeat a wrong key in their error.
#[tokio::test]
async fn a_key_that_the_provider_repeats_is_hidden() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let router = Router::new().fallback(|headers: HeaderMap| async move {
        let message = format!("Incorrect API key provided: {}", echo(&headers));
        (
            StatusCode::UNAUTHORIZED,
            axum::Json(json!({ "error": { "message": message, "code": "invalid_api_key" } })),
        )
    });
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let desk = desk(&url).await;
    let ended = desk.gaia(&["-vv", "run", "c.toml"]).await;
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert_ended_clean("gaia run", &ended);
    assert!(ended.stderr.contains("Incorrect API key provided"), "{ended:#?}");
    for file in files_below(&desk.runs().pop().unwrap()) {
        assert_clean(&file.display().to_string(), &fs_err::read(&file).unwrap());
    }
}
