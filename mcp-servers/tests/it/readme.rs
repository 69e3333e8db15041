//! The README's entries work as they stand, and it leaves nothing out.

use std::collections::BTreeSet;

use clap::CommandFactory;
use gaia_mcp_servers::bash::BashArgs;
use serde_json::{Value, json};

use crate::support::{BASH, ERAS, Era, PATIENCE, Process, command, http, image, stdio};

const README: &str = include_str!("../../README.md");
const PROGRAM: &str = "/path/to/gaia-mcp-bash";

/// What each client reads: its name in the README, where the servers are, and the fields of an entry.
const STDIO_CLIENTS: [(&str, &str, &[&str]); 7] = [
    ("Claude Desktop", "mcpServers", &["command", "args", "env"]),
    ("Claude Code", "mcpServers", &["type", "command", "args", "env"]),
    (
        "Codex",
        "mcp_servers",
        &[
            "command",
            "args",
            "env",
            "env_vars",
            "cwd",
            "startup_timeout_sec",
            "tool_timeout_sec",
            "enabled_tools",
        ],
    ),
    ("VS Code", "servers", &["type", "command", "args", "env", "envFile"]),
    ("Cursor", "mcpServers", &["type", "command", "args", "env", "envFile"]),
    (
        "Goose",
        "extensions",
        &["enabled", "type", "name", "cmd", "args", "envs", "env_keys", "timeout", "available_tools"],
    ),
    ("MCP Inspector", "mcpServers", &["type", "command", "args", "env"]),
];

const HTTP_CLIENTS: [(&str, &str, &[&str]); 3] = [
    ("Claude Code", "mcpServers", &["type", "url", "headers"]),
    ("Codex", "mcp_servers", &["url", "bearer_token_env_var", "http_headers", "env_http_headers"]),
    ("VS Code", "servers", &["type", "url", "headers"]),
];

/// Language and text of the code blocks in `text`.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    text.split("\n```")
        .skip(1)
        .step_by(2)
        .map(|block| block.split_once('\n').expect("a block has lines"))
        .collect()
}

fn section(start: &str, end: &str) -> &'static str {
    let from = README.find(start).unwrap_or_else(|| panic!("no `{start}` in the README"));
    let rest = &README[from + start.len()..];
    &rest[..rest.find(end).unwrap_or(rest.len())]
}

/// The entry for the server `bash` in the first block of `text`, with nothing beside it.
fn entry(client: &str, text: &str, root: &str, fields: &[&str]) -> Value {
    let (language, block) = blocks(text)[0];
    let config: Value = match language {
        "json" => serde_json::from_str(block).unwrap_or_else(|error| panic!("{client}: {error}")),
        "toml" => toml::from_str(block).unwrap_or_else(|error| panic!("{client}: {error}")),
        "yaml" => serde_yaml_ng::from_str(block).unwrap_or_else(|error| panic!("{client}: {error}")),
        other => panic!("{client}: a block of `{other}`"),
    };
    let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&config), [root], "{client}");
    assert_eq!(names(&config[root]), ["bash"], "{client}");
    let entry = config[root]["bash"].clone();
    for field in names(&entry) {
        assert!(fields.contains(&field.as_str()), "{client} does not read `{field}`");
    }
    entry
}

fn strings(value: &Value) -> Vec<String> {
    let strings: Option<Vec<String>> =
        value.as_array().and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    strings.unwrap_or_else(|| panic!("a list of strings expected: {value}"))
}

#[tokio::test]
async fn each_clients_entry_starts_the_server() {
    let home = tempfile::tempdir().unwrap();
    let image = image();
    for (client, root, fields) in STDIO_CLIENTS {
        let entry = entry(client, section(&format!("\n### {client}\n"), "\n#"), root, fields);
        let program = if client == "Goose" { "cmd" } else { "command" };
        assert_eq!(entry[program], PROGRAM, "{client}");
        if fields.contains(&"type") && entry["type"] != Value::Null {
            assert_eq!(entry["type"], "stdio", "{client}");
        }
        // What the clients put in place of their variables.
        let folder = home.path().to_str().unwrap();
        let mut args: Vec<String> = strings(&entry["args"])
            .iter()
            .map(|arg| arg.replace("${HOME}", folder).replace("${workspaceFolder}", folder))
            .collect();
        assert!(!args.iter().any(|arg| arg.contains("${")), "{client}: {args:?}");
        assert!(!args.contains(&"--image".to_owned()), "{client}: the default image is meant");
        // The default one may be absent on the machine of the tests.
        args.extend(["--image".to_owned(), image.clone()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (mut server, connected) = stdio(BASH, &args, Era::Legacy).await;
        let tools = connected.tools().await;
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert!(names.contains(&"bash"), "{client}: {names:?}");
        for list in ["enabled_tools", "available_tools"] {
            if entry[list] != Value::Null {
                assert!(strings(&entry[list]).iter().all(|tool| names.contains(&tool.as_str())), "{client}");
            }
        }
        connected.close().await;
        assert_eq!(server.wait(PATIENCE).await, Some(0), "{client}");
    }
}

#[tokio::test]
async fn each_http_entry_reaches_the_server() {
    let text = section("\n## Over HTTP\n", "\n## ");
    let shell = blocks(text)[0].1;
    let start = shell.lines().find(|line| line.starts_with("gaia-mcp-bash ")).expect("how to start it");
    let mut words = start.split(' ').skip(1);
    let (mut args, mut address) = (vec!["--image".to_owned(), image()], None);
    while let Some(word) = words.next() {
        match word {
            "--http" => address = words.next(),
            other => args.push(other.to_owned()),
        }
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let token = "00112233445566778899aabbccddeeff";
    let server = http(BASH, &args, &[("GAIA_BASH_TOKEN", token)]).await;
    for (client, root, fields) in HTTP_CLIENTS {
        let entry = entry(client, section_of(text, &format!("\n{client}:\n")), root, fields);
        if root != "mcp_servers" {
            assert_eq!(entry["type"], "http", "{client}");
        }
        let base = format!("http://{}", address.expect("an address"));
        let url = entry["url"].as_str().expect("a URL");
        let path = url.strip_prefix(&base).unwrap_or_else(|| panic!("{client}: {url} is not at {base}"));
        let given = match entry["headers"]["Authorization"].as_str() {
            Some(header) => header
                .replace("${GAIA_BASH_TOKEN}", token)
                .replace("${env:GAIA_BASH_TOKEN}", token)
                .strip_prefix("Bearer ")
                .expect("a bearer token")
                .to_owned(),
            None => {
                assert_eq!(entry["bearer_token_env_var"], "GAIA_BASH_TOKEN", "{client}");
                token.to_owned()
            }
        };
        for era in ERAS {
            let connected = server.connect_with(path, era, Some(&given)).await;
            let connected = connected.unwrap_or_else(|error| panic!("{client}: {error}"));
            let ran = connected.call("bash", json!({ "command": "true" })).await;
            assert_eq!(ran.is_error, Some(false), "{client} {era:?}: {ran:?}");
            connected.close().await;
        }
    }
}

fn section_of<'a>(text: &'a str, start: &str) -> &'a str {
    &text[text.find(start).unwrap_or_else(|| panic!("no `{start}`")) + start.len()..]
}

#[tokio::test]
async fn every_flag_and_tool_and_argument_is_documented() {
    let words: BTreeSet<&str> = README
        .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_' || character == '-'))
        .collect();
    for argument in BashArgs::command().get_arguments().filter(|argument| !argument.is_hide_set()) {
        let Some(long) = argument.get_long() else { continue };
        assert!(words.contains(format!("--{long}").as_str()), "--{long} is not in the README");
        // Its row says the default.
        let default = argument.get_default_values().first().and_then(|value| value.to_str());
        if let Some(default) = default.filter(|default| !matches!(*default, "true" | "false")) {
            let row = README.lines().find(|line| line.starts_with(&format!("| `--{long} ")));
            let row = row.unwrap_or_else(|| panic!("--{long} has no row"));
            let cell = row.replace("\\|", "").split('|').nth(2).unwrap().trim().trim_matches('`').to_owned();
            assert_eq!(cell, default, "--{long}");
        }
    }
    let known: BTreeSet<String> = BashArgs::command()
        .get_arguments()
        .filter_map(|argument| argument.get_long().map(|long| format!("--{long}")))
        .collect();
    for row in README.lines().filter(|line| line.starts_with("| `--")) {
        for flag in row.split('`').skip(1).step_by(2).take(1) {
            let flag = flag.split(' ').next().unwrap();
            assert!(known.contains(flag), "{flag} does not exist");
        }
    }
    let (_server, client) = stdio(BASH, &["--image", &image()], Era::Legacy).await;
    for tool in client.tools().await {
        let row = README.lines().find(|line| line.starts_with(&format!("| `{}` | ", tool.name)));
        let row = row.unwrap_or_else(|| panic!("{} has no row", tool.name));
        for argument in tool.input_schema["properties"].as_object().unwrap().keys() {
            assert!(row.contains(&format!("`{argument}`")), "{}: {argument}", tool.name);
        }
    }
    client.close().await;
}

#[tokio::test]
async fn the_default_image_needs_no_flag() {
    let args = <BashArgs as clap::Parser>::try_parse_from(["gaia-mcp-bash"]).unwrap();
    assert_eq!(args.image, "python:3.11");
    // With the image, or with words on how to get it.
    let (code, _stdout, stderr) = Process::spawn(command(BASH, &["--check", "--pull", "never"])).end().await;
    let absent =
        stderr.contains("failed to find image `python:3.11`") && stderr.contains("docker pull python:3.11");
    assert!(code == Some(0) || (code == Some(4) && absent), "{code:?}: {stderr}");
}

#[test]
fn every_flag_of_the_web_servers_is_documented() {
    const WEB: &str = include_str!("../../WEB.md");
    let (fetch, search) = WEB.split_once("\n## gaia-mcp-search\n").unwrap();
    let shared = WEB.split_once("\n## An honest score\n").unwrap().1;
    for (command, text) in [
        (gaia_mcp_servers::fetch::FetchArgs::command(), fetch),
        (gaia_mcp_servers::search::SearchArgs::command(), search),
    ] {
        for argument in command.get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            let is_there = |text: &str| text.contains(&format!("`--{long}"));
            assert!(is_there(text) || is_there(shared) || is_there(README), "--{long} is not documented");
            let default = argument.get_default_values().first().and_then(|value| value.to_str());
            if let Some(default) = default.filter(|default| !matches!(*default, "true" | "false"))
                && is_there(text)
            {
                let row = text.lines().find(|line| line.starts_with(&format!("| `--{long} "))).unwrap();
                let cell = row.split('|').nth(2).unwrap().trim().trim_matches('`');
                assert_eq!(cell, default, "--{long}");
            }
        }
    }
}
