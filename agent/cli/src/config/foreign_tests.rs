//! Entries as the clients' own documentation shows them, pasted into a file, and into our TOML.

use std::collections::BTreeMap;

use super::*;

/// Loads a config that names one file of another host.
fn pasted(name: &str, text: &str) -> Bench {
    Bench::tools(&format!("mcp_config = [\"{name}\"]")).file(name, text)
}

type Stdio<'a> = (&'a str, Vec<&'a str>, Vec<(&'a str, &'a str)>, Option<&'a Path>);

#[track_caller]
fn stdio<'a>(loaded: &'a Loaded, name: &str) -> Stdio<'a> {
    let server = loaded.servers.iter().find(|server| server.name == name);
    match &server.unwrap_or_else(|| panic!("no `{name}` in {:?}", loaded.servers)).transport {
        TransportSpec::Stdio { command, args, env, cwd } => {
            (command, args.iter().map(String::as_str).collect(), pairs(env), cwd.as_deref())
        }
        other => panic!("`{name}` is {other:?}"),
    }
}

#[track_caller]
fn http<'a>(loaded: &'a Loaded, name: &str) -> (&'a str, Vec<(&'a str, &'a str)>, Option<&'a str>) {
    let server = loaded.servers.iter().find(|server| server.name == name).expect(name);
    match &server.transport {
        TransportSpec::Http { url, headers, bearer_token, .. } => {
            (url, pairs(headers), bearer_token.as_deref())
        }
        other => panic!("`{name}` is {other:?}"),
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    map.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn claude_desktop() {
    let bench = pasted(
        "claude_desktop_config.json",
        r#"{
          "globalShortcut": "Ctrl+Space",
          "mcpServers": {
            "filesystem": {
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/username/Desktop"]
            },
            "brave-search": {
              "command": "docker",
              "args": ["run", "-i", "--rm", "-e", "BRAVE_API_KEY", "mcp/brave-search"],
              "env": { "BRAVE_API_KEY": "YOUR_API_KEY_HERE" }
            }
          }
        }"#,
    );
    let loaded = bench.load();
    assert_eq!(
        stdio(&loaded, "filesystem"),
        (
            "npx",
            vec!["-y", "@modelcontextprotocol/server-filesystem", "/Users/username/Desktop"],
            vec![],
            Some(bench.dir.path())
        )
    );
    assert_eq!(stdio(&loaded, "brave-search").2, [("BRAVE_API_KEY", "YOUR_API_KEY_HERE")]);
    assert_eq!(loaded.secrets.redact("YOUR_API_KEY_HERE"), "[redacted]");
    assert!(!loaded.effective.to_string().contains("YOUR_API_KEY_HERE"), "{}", loaded.effective);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn claude_code_with_variables_and_every_transport() {
    let bench = pasted(
        ".mcp.json",
        r#"{
          "mcpServers": {
            "api-server": {
              "type": "http",
              "url": "${API_BASE_URL:-https://api.example.com}/mcp",
              "headers": { "Authorization": "Bearer ${API_KEY}" },
              "oauth": { "clientId": "x", "callbackPort": 8080 },
              "timeout": 600000
            },
            "old": { "type": "sse", "url": "https://mcp.example.com/sse", "alwaysAllow": ["*"] },
            "stream": { "type": "streamable-http", "url": "https://x/mcp" },
            "local": { "type": "stdio", "command": "${HOME}/bin/x", "args": ["${A:-b}"], "env": {} }
          }
        }"#,
    )
    .variable("API_KEY", "key-value-1")
    .variable("HOME", "/home/u");
    let loaded = bench.load();
    assert_eq!(
        http(&loaded, "api-server"),
        ("https://api.example.com/mcp", vec![("Authorization", "Bearer key-value-1")], None)
    );
    let api = loaded.servers.iter().find(|server| server.name == "api-server").unwrap();
    assert_eq!(api.tool_timeout.as_secs(), 600);
    assert_eq!(http(&loaded, "old").0, "https://mcp.example.com/sse");
    assert_eq!(loaded.config.mcp_servers["old"].transport, Some(TransportConfig::Sse));
    assert_eq!(loaded.config.mcp_servers["stream"].transport, Some(TransportConfig::Http));
    let local = stdio(&loaded, "local");
    assert_eq!((local.0, local.1), ("/home/u/bin/x", vec!["b"]));
}

#[test]
fn vs_code_with_comments_inputs_and_folders() {
    let text = r#"{
      // Asked for once.
      "inputs": [
        { "type": "promptString", "id": "perplexity-key", "description": "Perplexity API Key", "password": true },
        { "type": "promptString", "id": "region", "description": "Region", "default": "eu" },
      ],
      "servers": {
        "perplexity": {
          "type": "stdio",
          "command": "npx",
          "args": ["-y", "server-perplexity-ask", "--region", "${input:region}", "--key=${input:perplexity-key}"],
          "env": { "PERPLEXITY_API_KEY": "${input:perplexity-key}", "HOME_OF": "${userHome}", "ROOT": "${workspaceFolder}/x" },
          "envFile": "${workspaceFolder}/.env.local",
          "dev": { "watch": "src/**/*.ts", "debug": { "type": "node" } },
          "gallery": true, /* and more */
        },
        "github": { "url": "https://api.githubcopilot.com/mcp/", "headers": { "X-Port": 8080, "X-On": true } }
      }
    }"#;
    let bench = pasted(".vscode/mcp.json", text)
        .file(".env.local", "FILE_TOKEN=file-value-1\nPERPLEXITY_API_KEY=loses\n")
        .variable("HOME", "/home/u");
    check_contains(
        &bench.error(),
        &[
            ".vscode/mcp.json:11:",
            "`${input:perplexity-key}` (Perplexity API Key): there is nobody to ask; its value comes from environment \
             variable `PERPLEXITY_KEY`, which is not set",
            "hint: set it, or put `PERPLEXITY_KEY=…` into a `.env`",
        ],
    );
    let bench = bench.variable("PERPLEXITY_KEY", "pplx-value-1");
    let loaded = bench.load();
    let root = bench.dir.path().to_str().unwrap();
    let (command, args, env, cwd) = stdio(&loaded, "perplexity");
    assert_eq!((command, cwd), ("npx", Some(bench.dir.path())));
    assert_eq!(args, ["-y", "server-perplexity-ask", "--region", "eu", "--key=pplx-value-1"]);
    assert_eq!(
        env,
        [
            ("FILE_TOKEN", "file-value-1"),
            ("HOME_OF", "/home/u"),
            ("PERPLEXITY_API_KEY", "pplx-value-1"),
            ("ROOT", &format!("{root}/x"))
        ]
    );
    assert_eq!(http(&loaded, "github").1, [("X-On", "true"), ("X-Port", "8080")]);
    for secret in ["pplx-value-1", "file-value-1"] {
        assert!(loaded.secrets.iter().any(|value| value == secret), "{secret}");
        assert!(!loaded.effective.to_string().contains(secret));
    }
    // A resumed run reads the stored config, and no file of another host.
    let again = Bench::tools(&toml::to_string(&loaded.effective).unwrap())
        .variable("PERPLEXITY_KEY", "pplx-value-1")
        .variable("HOME", "/home/u");
    let again = again.load();
    assert_eq!(stdio(&again, "perplexity"), stdio(&loaded, "perplexity"));
}

#[test]
fn vs_code_settings_and_cursor() {
    let loaded = pasted("settings.json", r#"{ "mcp": { "servers": { "a": { "command": "x" } } } }"#).load();
    assert_eq!(stdio(&loaded, "a").0, "x");
    let bench = pasted(
        ".cursor/mcp.json",
        r#"{ "mcpServers": {
            "server-name": { "command": "python", "args": ["${workspaceFolder}/mcp-server.py", "${workspaceFolderBasename}${/}"],
                             "env": { "API_KEY": "${env:API_KEY}" }, "envFile": ".env" },
            "remote": { "url": "http://localhost:3000/mcp", "headers": { "API_KEY": "value-of-key" } }
        } }"#,
    )
    .file(".cursor/.env", "B=b-value-1")
    .variable("API_KEY", "k-value-1");
    let loaded = bench.load();
    let root = bench.dir.path().to_str().unwrap().to_owned();
    let name = root.rsplit('/').next().unwrap();
    let (_, args, env, _) = stdio(&loaded, "server-name");
    assert_eq!(args, [format!("{root}/mcp-server.py"), format!("{name}/")]);
    assert_eq!(env, [("API_KEY", "k-value-1"), ("B", "b-value-1")]);
    assert_eq!(http(&loaded, "remote").1, [("API_KEY", "value-of-key")]);
}

const CODEX: &str = r#"
[mcp_servers.docs]
command = "npx"
args = ["-y", "@upstash/context7-mcp"]
env_vars = ["LOCAL_TOKEN"]
cwd = "sub"
startup_timeout_ms = 20_000
tool_timeout_sec = 45
enabled_tools = ["search"]
disabled_tools = ["screenshot"]
default_tools_approval_mode = "prompt"
[mcp_servers.docs.env]
MY_ENV_VAR = "MY_ENV_VALUE"
[mcp_servers.docs.tools.search]
approval_mode = "approve"

[mcp_servers.figma]
url = "https://mcp.figma.com/mcp"
bearer_token_env_var = "FIGMA_OAUTH_TOKEN"
http_headers = { "X-Figma-Region" = "us-east-1" }
env_http_headers = { "X-Team" = "FIGMA_TEAM" }
scopes = ["a"]

[mcp_servers.off]
command = "x"
args = ["${NOT_SET_AND_NOT_NEEDED}"]
enabled = false
"#;

#[test]
fn codex_in_a_file_of_its_own_and_in_ours() {
    let file =
        pasted("codex/config.toml", &format!("model = \"gpt-5\"\n[profiles.x]\nmodel = \"o\"\n{CODEX}"));
    for (bench, folder) in [(file, "codex/sub"), (Bench::tools(CODEX), "sub")] {
        let bench = bench
            .variable("LOCAL_TOKEN", "local-value-1")
            .variable("FIGMA_OAUTH_TOKEN", "figma-value-1")
            .variable("FIGMA_TEAM", "team-value-1");
        let loaded = bench.load();
        let cwd = bench.dir.path().join(folder);
        assert_eq!(
            stdio(&loaded, "docs"),
            (
                "npx",
                vec!["-y", "@upstash/context7-mcp"],
                vec![("LOCAL_TOKEN", "local-value-1"), ("MY_ENV_VAR", "MY_ENV_VALUE")],
                Some(cwd.as_path())
            )
        );
        let docs = &loaded.servers[0];
        assert_eq!((docs.startup_timeout.as_secs(), docs.tool_timeout.as_secs()), (20, 45));
        assert_eq!(docs.enabled_tools.as_deref(), Some(&["search".to_owned()][..]));
        assert_eq!(
            http(&loaded, "figma"),
            (
                "https://mcp.figma.com/mcp",
                vec![("X-Figma-Region", "us-east-1"), ("X-Team", "team-value-1")],
                Some("figma-value-1")
            )
        );
        assert_eq!(loaded.servers.len(), 2);
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        for secret in ["local-value-1", "figma-value-1", "team-value-1"] {
            assert!(loaded.secrets.iter().any(|value| value == secret), "{secret}");
        }
    }
}

#[test]
fn evalscope_with_and_without_names() {
    let list = r#"[
        { "type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"], "tools": "all" },
        { "type": "stdio", "name": "time", "command": "uvx", "args": ["mcp-server-time"], "tools": ["get_current_time"] },
        { "type": "stdio", "command": "uvx", "args": ["x"], "tools": ["*"] },
        { "type": "http", "url": "http://localhost:8000/mcp", "headers": {}, "timeout": 30.0 },
        { "type": "sse", "url": "http://localhost/sse", "timeout": 5.0, "sse_read_timeout": 300.0 }
    ]"#;
    for text in [
        list.to_owned(),
        format!("{{\"mcp_servers\": {list}}}"),
        format!("{{\"agent_config\": {{\"mode\": \"native\", \"mcp_servers\": {list}}}}}"),
    ] {
        let loaded = pasted("task.json", &text).load();
        let names: Vec<&str> = loaded.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["localhost", "localhost-2", "time", "uvx", "uvx-2"]);
        let time = loaded.servers.iter().find(|server| server.name == "time").unwrap();
        assert_eq!(time.enabled_tools.as_deref(), Some(&["get_current_time".to_owned()][..]));
        let remote = loaded.servers.iter().find(|server| server.name == "localhost").unwrap();
        assert_eq!(remote.tool_timeout.as_secs(), 30);
    }
}

#[test]
fn others_words_work_in_our_own_toml() {
    let loaded = Bench::tools(
        r#"
        [mcp_servers.goose]
        type = "stdio"
        cmd = "uvx"
        args = ["x"]
        envs = { A = "1" }
        env_keys = ["B"]
        timeout = 300
        available_tools = ["t"]
        bundled = false
        display_name = "Goose"
        [mcp_servers.gemini]
        httpUrl = "http://x/mcp"
        includeTools = ["a", "b"]
        excludeTools = ["b"]
        trust = true
        timeout = 30000
        [mcp_servers.cline]
        command = "node"
        args = ["${workspaceFolder}/server.js", "${input:mode}"]
        disabled = false
        autoApprove = ["t"]
        alwaysAllow = []
        [mcp_servers.inspector]
        command = ["npx", "-y", "z"]
        transport = "stdio"
        protocolEra = "legacy"
        [mcp_servers.windsurf]
        serverUrl = "https://w/mcp"
        [mcp_servers.there]
        command = "./bin/server"
        "#,
    )
    .variable("B", "b-value-1")
    .variable("MODE", "fast")
    .load();
    let (command, args, env, _) = stdio(&loaded, "goose");
    assert_eq!((command, args, env), ("uvx", vec!["x"], vec![("A", "1"), ("B", "b-value-1")]));
    let timeout =
        |name: &str| loaded.servers.iter().find(|server| server.name == name).unwrap().tool_timeout.as_secs();
    assert_eq!((timeout("goose"), timeout("gemini")), (300, 30));
    let base = loaded.base.to_str().unwrap().to_owned();
    assert_eq!(stdio(&loaded, "cline").1, [&format!("{base}/server.js"), "fast"]);
    assert_eq!((stdio(&loaded, "inspector").0, stdio(&loaded, "inspector").1), ("npx", vec!["-y", "z"]));
    assert_eq!(loaded.config.mcp_servers["inspector"].protocol, ProtocolConfig::Era2025);
    assert_eq!(http(&loaded, "windsurf").0, "https://w/mcp");
    assert_eq!(stdio(&loaded, "there").0, format!("{base}/./bin/server"));
}

#[test]
fn our_own_keys_beside_pasted_ones_and_in_the_config_file() {
    let json = r#"{ "mcpServers": { "a": { "command": "x", "scope": "run", "enabled_tools": ["t"], "protocol": 2025, "required": false } } }"#;
    let bench = Bench::tools(
        "mcp_config = [\"m.json\"]\n[mcp_servers.a]\ntool_timeout_sec = 7\nenabled_tools = [\"u\"]",
    )
    .file("m.json", json);
    let loaded = bench.load();
    let a = &loaded.servers[0];
    assert_eq!((a.scope, a.required, a.protocol), (Scope::Run, false, Protocol::Legacy));
    assert_eq!(a.tool_timeout.as_secs(), 7);
    assert_eq!(a.enabled_tools.as_deref(), Some(&["u".to_owned()][..]));
    let loaded = bench.set("mcp_servers.a.scope", "sample").load();
    assert_eq!(loaded.servers[0].scope, Scope::Sample);
}

#[test]
fn files_are_found_from_where_they_are_named() {
    let json = r#"{ "mcpServers": { "My Server/2": { "command": "./run", "args": ["a"] } } }"#;
    let bench = Bench::tools("")
        .file("sub/c.toml", "mcp_config = [\"more/m.json\"]")
        .file("sub/more/m.json", json)
        .file("home/m.json", r#"{ "mcpServers": { "h": { "command": "~/run", "cwd": "~" } } }"#)
        .file("here.json", r#"{ "mcpServers": { "w": { "command": "x" } } }"#);
    let loaded = bench.try_load_file(Some(Path::new("sub/c.toml"))).unwrap();
    let more = bench.dir.path().join("sub/more");
    let (command, _, _, cwd) = stdio(&loaded, "My_Server_2");
    assert_eq!((command, cwd), (more.join("./run").to_str().unwrap(), Some(more.as_path())));

    let home = bench.dir.path().join("home");
    let bench = bench.variable("HOME", home.to_str().unwrap()).variable("NAME", "m");
    let bench = bench.set("mcp_config", "[\"~/${NAME}.json\", \"here.json\"]");
    let loaded = bench.try_load_file(Some(Path::new("sub/c.toml"))).unwrap();
    assert_eq!(stdio(&loaded, "h").0, home.join("run").to_str().unwrap());
    assert_eq!(stdio(&loaded, "h").3, Some(home.join("").as_path()));
    assert_eq!(stdio(&loaded, "w").0, "x");
}

#[test]
fn a_file_of_another_host_is_a_config_by_itself() {
    let bench = Bench::tools("").file(".mcp.json", r#"{ "mcpServers": { "a": { "command": "x" } } }"#);
    let loaded = bench.try_load_file(Some(Path::new(".mcp.json"))).unwrap();
    assert_eq!(stdio(&loaded, "a").0, "x");
    let bench = bench.set("mcp_servers.a.scope", "run");
    let loaded = bench.try_load_file(Some(Path::new(".mcp.json"))).unwrap();
    assert_eq!(loaded.servers[0].scope, Scope::Run);
    let error = bench.try_load_file(Some(Path::new("none.json"))).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }), "{error}");
}

/// What is wrong in `m.json`, and what the error must hold.
#[test]
fn mistakes_are_shown_where_they_stand() {
    let cases: &[(&str, &[&str])] = &[
        (
            "{\n  \"mcpServers\": {\n    \"a\": { \"comand\": \"x\" }\n  }\n}",
            &[
                "m.json:3:12: unknown key `comand` of MCP server `a`, did you mean `command`?\n  |\n3 |     \"a\": { \"comand\": \"x\" }\n  |            ^^^^^^^^",
            ],
        ),
        ("{\n \"mcpServers\": {\n  \"a\": { \"command\" \"x\" } } }", &["m.json:3:", "not valid JSON"]),
        ("{ \"mcpServers\": { \"a\": { \"command\": \"x\"", &["m.json:1:", "not valid JSON"]),
        ("", &["m.json:1:1: not a JSON object"]),
        ("3", &["m.json:1:1: not a JSON object"]),
        (
            "{ \"mcpServer\": {} }",
            &["m.json:1:3: no MCP servers in this file: unknown key `mcpServer`, did you mean `mcpServers`?"],
        ),
        ("{ \"x\": 1 }", &["m.json:1:1: no MCP servers in this file: it has none of the keys"]),
        ("{ \"mcpServers\": 3 }", &["m.json:1:3: `mcpServers` must hold MCP servers"]),
        ("{ \"mcpServers\": { \"a\": \"npx x\" } }", &["m.json:1:19: MCP server `a` must be an object"]),
        (
            "{ \"mcpServers\": { \"a\": { \"command\": \"x\" },\n \"a\": { \"command\": \"y\" } } }",
            &["m.json:2:2: duplicate key `a`"],
        ),
        (
            "{ \"mcpServers\": { \"a b\": { \"command\": \"x\" },\n \"a_b\": { \"command\": \"y\" } } }",
            &["m.json:2:2: MCP server `a_b` is defined twice: here and in m.json:1:19"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"command\": \"x\", \"args\": \"-y z\" } } }",
            &["m.json:1:50: `mcp_servers.a.args`: wrong type: text \"-y z\", expected a list", "^^^^^^"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"command\": \"x\",\n \"args\": [\"ok\", \"${NO_SUCH}\"] } } }",
            &["m.json:2:18: `mcp_servers.a.args.1`: environment variable `NO_SUCH` is not set", "^^^^^^^^^^"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"type\": \"ws\", \"url\": \"ws://x\" } } }",
            &[
                "m.json:1:34: `mcp_servers.a.type`: unknown value `ws`, expected one of `stdio`, `http`, `sse`",
            ],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"type\": \"stdio\", \"url\": \"http://x\" } } }",
            &["`mcp_servers.a.type` belongs to servers with `command`"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"type\": \"http\", \"command\": \"x\" } } }",
            &["`mcp_servers.a.type` belongs to servers with `url`"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"url\": \"http://x\", \"httpUrl\": \"http://y\" } } }",
            &["`httpUrl` and `url` of server `a` mean the same"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"url\": \"http://x\", \"bearer_token\": \"tok-123456\" } } }",
            &["holds a secret in the open", "`bearer_token_env_var`"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"command\": \"x\", \"timeout\": \"soon\" } } }",
            &["`timeout` of server `a`: expected a number"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"command\": \"x\", \"disabled\": \"no\" } } }",
            &["`disabled` of server `a`: expected true or false"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"command\": \"x\", \"envFile\": \"none.env\" } } }",
            &["m.json:1:53: `mcp_servers.a.env_file`: failed to open file", "none.env"],
        ),
        (
            "{ \"mcpServers\": { \"a\": { \"url\": \"http://x\", \"env_http_headers\": { \"X\": \"NO_SUCH\" } } } }",
            &["environment variable `NO_SUCH` is not set, which `mcp_servers.a.env_http_headers.X` names"],
        ),
    ];
    for (text, parts) in cases {
        let bench = pasted("m.json", text);
        let error = match bench.try_load() {
            Ok(_) => panic!("accepted:\n{text}"),
            Err(error) => error.to_string(),
        };
        check_contains(&error, parts);
        assert!(!error.contains("tok-123456"), "{error}");
    }
}

#[test]
fn a_key_that_only_its_host_knows_is_a_warning_with_its_place() {
    let loaded =
        pasted("m.json", r#"{ "mcpServers": { "a": { "command": "x", "zzz": { "y": 1 } } } }"#).load();
    assert_eq!(loaded.servers.len(), 1);
    let [warning] = loaded.warnings.as_slice() else { panic!("{:?}", loaded.warnings) };
    check_contains(warning, &["m.json:1:42: unknown key `zzz` of MCP server `a`", "it is ignored"]);
}

#[test]
fn the_same_name_in_two_files_is_an_error_that_names_both() {
    let one = r#"{ "mcpServers": { "a": { "command": "x" } } }"#;
    let bench = Bench::tools("mcp_config = [\"1.json\", \"2.json\"]")
        .file("1.json", one)
        .file("2.json", "{\n \"servers\": { \"a\": { \"command\": \"y\" } } }");
    check_contains(
        &bench.error(),
        &[
            "2.json:2:15: MCP server `a` is defined twice: here and in 1.json:1:19",
            "hint: rename or remove one of them",
        ],
    );
    let bench =
        Bench::tools("mcp_config = [\"1.json\"]\n[mcp_servers.a]\ncommand = \"z\"").file("1.json", one);
    check_contains(
        &bench.error(),
        &["1.json:1:19: MCP server `a` is defined twice: here and in run.toml:2:"],
    );
}

#[test]
fn an_error_shows_no_secret_of_the_line_it_points_at() {
    let text =
        r#"{ "mcpServers": { "a": { "command": "x", "env": { "API_KEY": "sk-123456" }, "comand": "y" } } }"#;
    let error = pasted("m.json", text).error();
    check_contains(&error, &["m.json:1:77: unknown key `comand`", "\"API_KEY\": \"*********\""]);
    assert!(!error.contains("sk-123456"), "{error}");
}

#[test]
fn a_server_that_is_switched_off_does_not_count() {
    let loaded = pasted(
        "m.json",
        r#"{ "mcpServers": { "a": { "command": "x", "disabled": true }, "b": { "command": "y", "enabled": true } } }"#,
    )
    .load();
    let names: Vec<&str> = loaded.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["b"]);
    let error = Bench::new(&format!("{COMPLETE}{SUBMIT}enabled = false")).error();
    check_contains(&error, &["needs a server `submit`, which the config does not have"]);
}
