use std::path::Path;

use gaia_agent::tools::{Protocol, Scope, TransportSpec};

use super::*;

#[path = "foreign_tests.rs"]
mod foreign;

/// A folder with a config, and all that `load` takes.
struct Bench {
    dir: tempfile::TempDir,
    environment: Environment,
    overrides: Vec<Override>,
    purpose: Purpose,
}

const SUBMIT: &str = "[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n";
const COMPLETE: &str = "[dataset]\npath = \"data\"\n[model]\nname = \"m\"\n";

impl Bench {
    fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs_err::write(dir.path().join("run.toml"), config).unwrap();
        Self { dir, environment: Environment::default(), overrides: Vec::new(), purpose: Purpose::Run }
    }

    /// With a dataset, a model and an answer tool around it.
    fn complete(more: &str) -> Self {
        Self::new(&format!("{COMPLETE}{more}\n{SUBMIT}"))
    }

    fn tools(config: &str) -> Self {
        Self { purpose: Purpose::Tools, ..Self::new(config) }
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.fill(name.to_owned(), value.to_owned());
        self
    }

    fn set(mut self, key: &str, value: &str) -> Self {
        self.overrides.push(Override { flag: "--set".into(), key: key.into(), value: value.into() });
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.dir.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
        self
    }

    fn try_load(&self) -> Result<Loaded, ConfigError> {
        self.try_load_file(Some(Path::new("run.toml")))
    }

    fn try_load_file(&self, file: Option<&Path>) -> Result<Loaded, ConfigError> {
        load(&Sources {
            file,
            overrides: &self.overrides,
            environment: &self.environment,
            working_dir: self.dir.path(),
            purpose: self.purpose,
        })
    }

    #[track_caller]
    fn load(&self) -> Loaded {
        self.try_load().unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn error(&self) -> String {
        match self.try_load() {
            Ok(_) => panic!("the config was accepted"),
            Err(error) => error.to_string(),
        }
    }
}

#[track_caller]
fn check_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = Config::default();
    assert_eq!(config.agent.max_steps, 50);
    assert_eq!(config.agent.answer_tool, "submit/submit");
    assert_eq!(config.agent.sample_timeout.as_secs(), 1800);
    assert_eq!(config.agent.result_bytes, 16 * 1024);
    assert_eq!((config.run.concurrency, config.run.epochs, config.run.ignore_errors), (5, 1, true));
    assert!(config.model.stream && config.model.parallel_tool_calls.is_none() && !config.model.rehearsal);
    assert_eq!(config.dataset.split, Split::Validation);
}

#[test]
fn later_layers_win() {
    let bench = Bench::new(&format!("{COMPLETE}temperature_is_no_key = 1"));
    check_contains(&bench.error(), &["unknown key `temperature_is_no_key` in `[model]`"]);

    let bench = Bench::complete("[run]\nconcurrency = 2\nepochs = 3").variable("GAIA_CONCURRENCY", "7");
    assert_eq!(bench.load().config.run.concurrency, 7);
    let bench = bench.set("run.concurrency", "9").set("agent.sample_timeout", "90s");
    let loaded = bench.load();
    assert_eq!((loaded.config.run.concurrency, loaded.config.run.epochs), (9, 3));
    assert_eq!(loaded.config.agent.sample_timeout.as_secs(), 90);
    assert_eq!(loaded.effective["run"]["concurrency"].as_integer(), Some(9));
}

#[test]
fn texts_from_outside_are_read_as_the_key_needs_them() {
    let loaded = Bench::complete("[mcp_servers.bash]\ncommand = \"b\"")
        .variable("GAIA_MODEL", "4")
        .variable("GAIA_LEVELS", "3,2023_level1")
        .set("model.params.temperature", "0.5")
        .set("model.params.stop", "[\"a\"]")
        .set("model.params.effort", "high")
        .set("dataset.task_ids", "a, b")
        .set("model.accepts", "[\"image/\"]")
        .set("mcp_servers.bash.args", "[\"--network\", \"off\"]")
        .set("mcp_servers.bash.protocol", "2025")
        .load();
    assert_eq!(loaded.config.model.name.as_deref(), Some("4"));
    assert_eq!(loaded.config.dataset.levels, [1, 3]);
    assert_eq!(loaded.config.dataset.task_ids, ["a", "b"]);
    assert_eq!(loaded.config.model.accepts, ["image/"]);
    assert_eq!(
        serde_json::to_value(&loaded.config.model.params).unwrap(),
        serde_json::json!({"temperature": 0.5, "stop": ["a"], "effort": "high"})
    );
    let bash = loaded.servers.iter().find(|server| server.name == "bash").unwrap();
    assert_eq!(bash.protocol, Protocol::Legacy);
    let TransportSpec::Stdio { args, .. } = &bash.transport else { panic!("not stdio") };
    assert_eq!(args, &["--network", "off"]);
}

#[test]
fn an_empty_variable_is_no_layer() {
    assert_eq!(Bench::complete("").variable("GAIA_MODEL", "").load().config.model.name.as_deref(), Some("m"));
}

#[test]
fn an_unknown_key_is_shown_where_it_stands() {
    let error = Bench::complete("[agent]\nmax_stpes = 3\n[run]\nwibble = 1").error();
    check_contains(
        &error,
        &[
            "2 problems",
            "run.toml:6:1: unknown key `max_stpes` in `[agent]`, did you mean `max_steps`?\n  |\n6 | max_stpes = 3\n  | ^^^^^^^^^",
            "run.toml:8:1: unknown key `wibble` in `[run]`",
            "hint: known keys: concurrency, epochs, ignore_errors, out, sandboxes, model_calls, budget",
        ],
    );
    check_contains(
        &Bench::complete("[agent]\nmax_steps = \"a\"\n[ran]\nepochs = 1").error(),
        &["2 problems", "unknown key `ran`, did you mean `run`?", "`agent.max_steps`: wrong type"],
    );
    check_contains(
        &Bench::complete("[modle]\nx = 1").error(),
        &["unknown key `modle`, did you mean `model`?"],
    );
    check_contains(
        &Bench::complete("[mcp_servers.a]\ncommand = \"x\"\ncomand = \"y\"").error(),
        &["run.toml:7:1: unknown key `comand` in `[mcp_servers.a]`, did you mean `command`?"],
    );
    check_contains(
        &Bench::complete("[model.price]\ninput = 1\noutput = 2\ncache = 3").error(),
        &["unknown key `cache` in `[model.price]`, did you mean `cached`?"],
    );
    check_contains(
        &Bench::complete("").set("run.epoch", "2").error(),
        &["`--set run.epoch=2`: unknown key `epoch` in `[run]`, did you mean `epochs`?"],
    );
}

/// What is wrong in a file, and what the error must hold. The fragment starts in line 5.
#[test]
fn bad_values_are_explained() {
    let cases: &[(&str, &[&str])] = &[
        (
            "[agent]\nmax_steps = \"many\"",
            &[
                "run.toml:6:13: `agent.max_steps`: wrong type: text \"many\", expected a whole number",
                "  |             ^^^^^^",
            ],
        ),
        ("[agent]\nmax_steps = -1", &["run.toml:6:13", "expected a whole number"]),
        ("[agent]\nmax_steps = 0", &["run.toml:6:13: `agent.max_steps` must be at least 1"]),
        (
            "[agent]\nsample_timeout = \"30\"",
            &["run.toml:6:18", "expected a duration with its unit, such as \"30m\""],
        ),
        ("[agent]\nsample_timeout = 30", &["expected a duration with its unit"]),
        ("[agent]\nsample_timeout = \"0s\"", &["a duration of zero"]),
        ("[agent]\nresult_bytes = 3", &["must be at least 256"]),
        (
            "[agent]\nanswer_tool = \"submit\"",
            &["run.toml:6:15: `agent.answer_tool` must be of the form `server/tool`"],
        ),
        (
            "[agent]\nanswer_tool = \"submitt/submit\"",
            &["did you mean `submit`?", "hint: add `[mcp_servers.submitt]`"],
        ),
        ("[agent.budget]\ncost_usd = 0.0", &["`agent.budget.cost_usd` must be above 0"]),
        (
            "[agent.budget]\ncost_usd = 1.0\n[model.price]\ninput = 1.0",
            &["missing key `output`", "run.toml:7"],
        ),
        (
            "[model.price]\ninput = -1.0\noutput = 1.0",
            &["run.toml:6:9: `model.price.input` must not be negative"],
        ),
        ("[model.server]\nargs = []", &["missing key `command`", "run.toml:5"]),
        ("[model.server]\ncommand = \"x\"\nready_timeout_sec = 0", &["a number of seconds above 0"]),
        ("[run]\nconcurrency = 0", &["`run.concurrency` must be at least 1"]),
        ("[run]\nepochs = 0", &["`run.epochs` must be at least 1"]),
        ("[run]\nignore_errors = \"yes\"", &["expected true or false"]),
        ("[mcp_servers.a]", &["run.toml:5:", "server `a` has neither `command` (a program) nor `url`"]),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nurl = \"http://x\"",
            &["run.toml:7:1: server `a` has both `command` and `url`"],
        ),
        ("[mcp_servers.a]\ncommand = \"\"", &["is empty"]),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nheaders = { X = \"y\" }",
            &["`headers` of server `a` belongs to servers with `url`"],
        ),
        (
            "[mcp_servers.a]\nurl = \"http://x\"\nargs = [\"y\"]",
            &["`args` of server `a` belongs to servers with `command`"],
        ),
        ("[mcp_servers.a]\nurl = \"localhost:80\"", &["must start with `http://` or `https://`"]),
        ("[mcp_servers.\"a b\"]\ncommand = \"x\"", &["`a b` is not a server name"]),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nenabled_tools = [\"ok\", \"[a\"]",
            &["run.toml:7:24: `[a` is not a glob", "  | "],
        ),
        ("[mcp_servers.a]\ncommand = \"x\"\nenabled_tools = []", &["leaves no tool"]),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nscope = \"task\"",
            &["run.toml:7:9", "`task`", "`sample`", "`run`"],
        ),
        ("[mcp_servers.a]\ncommand = \"x\"\nprotocol = 2024", &["\"auto\", 2025 or 2026"]),
        ("[mcp_servers.a]\ncommand = \"x\"\ntool_timeout_sec = -2", &["a number of seconds above 0"]),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nmax_concurrent_calls = 2",
            &[
                "`mcp_servers.a.max_concurrent_calls` bounds a server that all samples share",
                "scope = \"run\"",
            ],
        ),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nscope = \"run\"\nmax_concurrent_calls = 0",
            &["run.toml:8:24: ", "must be at least 1"],
        ),
        ("[mcp_servers.a]\ncommand = \"x\"\nprefix = \"p.\"", &["`mcp_servers.a.prefix` may hold letters"]),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nenv = { GAIA_RUN_ID = \"1\" }",
            &["`GAIA_RUN_ID` is set by gaia"],
        ),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"A=b\"]",
            &["run.toml:7:13: `env_vars` holds NAMES"],
        ),
        ("[agent]\nmax_steps = \n", &["run.toml:6:", "not valid TOML"]),
        ("[agent]\nmax_steps = 1\nmax_steps = 2\n", &["run.toml:7:1: not valid TOML: duplicate key"]),
    ];
    for (fragment, parts) in cases {
        let bench = Bench::complete(fragment);
        let error = match bench.try_load() {
            Ok(_) => panic!("accepted:\n{fragment}"),
            Err(error) => error.to_string(),
        };
        check_contains(&error, parts);
    }
}

#[test]
fn bad_values_in_other_sections_are_explained() {
    let cases: &[(&str, &[&str])] = &[
        ("[dataset]\npath = \"d\"\nlevels = [4]\n", &["run.toml:3:11", "levels 1, 2 or 3"]),
        ("[dataset]\npath = \"d\"\nlevels = [\"2023_level9\"]\n", &["levels 1, 2 or 3"]),
        ("[dataset]\npath = \"d\"\nsplit = \"train\"\n", &["`validation`", "`test`"]),
        ("[dataset]\npath = \"d\"\nlimit = 0\n", &["`dataset.limit` must be at least 1"]),
        ("[dataset]\nhub = \"elsewhere\"\n", &["modelscope", "huggingface"]),
        ("[model]\nname = \"m\"\n", &["`dataset.path` is missing", "`--dataset PATH`"]),
        ("[dataset]\npath = \"d\"\n", &["`model.name` is missing", "`--model NAME`"]),
        ("[model]\ntool_calls = \"json\"\n", &["`native`", "`native-only`", "`text`"]),
        ("[model]\nrequests_per_minute = 0\n", &["`model.requests_per_minute` must be at least 1"]),
        ("[model]\ntokens_per_minute = 0\n", &["`model.tokens_per_minute` must be at least 1"]),
        ("[model]\nmax_concurrent_requests = 0\n", &["`model.max_concurrent_requests` must be at least 1"]),
        ("[model]\napi = \"grpc\"\n", &["`chat`", "`responses`"]),
        ("[model]\naccepts = [\"image\"]\n", &["run.toml:2:12: `image` is not the start of a media type"]),
        ("mcp_config = [\"x.json\"]\n", &["run.toml:1:15: `mcp_config`: failed to open file", "x.json"]),
        ("[model]\nbase_url = \"http://x\"\nserver = { command = \"x\" }\n", &["exclude each other"]),
        ("[model]\nparams = { stream = true }\n", &["set by the loop"]),
    ];
    for (config, parts) in cases {
        check_contains(&Bench::new(config).error(), parts);
    }
}

#[test]
fn layers_without_lines_are_named() {
    check_contains(
        &Bench::complete("").variable("GAIA_EPOCHS", "two").error(),
        &[
            "environment variable `GAIA_EPOCHS`: `run.epochs`: wrong type: text \"two\", expected a whole number",
        ],
    );
    check_contains(
        &Bench::complete("").set("run.epochs", "0").error(),
        &["`--set run.epochs=0`: `run.epochs` must be at least 1"],
    );
    let mut bench = Bench::complete("");
    bench.overrides.push(Override {
        flag: "--level".into(),
        key: "dataset.levels".into(),
        value: "4".into(),
    });
    check_contains(&bench.error(), &["`--level 4`: `dataset.levels", "levels 1, 2 or 3"]);
    let bench = Bench::complete("[mcp_servers.a]\ncommand = \"x\"\nargs = [\"file\"]");
    check_contains(
        &bench.set("mcp_servers.a.args", "[\"${NO_SUCH}\"]").error(),
        &["`--set mcp_servers.a.args=[\"${NO_SUCH}\"]`: `mcp_servers.a.args.0`"],
    );
    check_contains(&Bench::complete("").set("", "1").error(), &["not of the form `section.key`"]);
}

#[test]
fn a_missing_file_is_an_error_with_the_preset_that_was_meant() {
    let bench = Bench::new("").file("configs/rehearsal.toml", "");
    let error = bench.try_load_file(Some(Path::new("rehearsal"))).unwrap_err().to_string();
    check_contains(
        &error,
        &["failed to read the config", "rehearsal", "hint: there is `configs/rehearsal.toml`"],
    );
}

#[test]
fn without_a_file_the_working_folders_own_is_taken() {
    let bench = Bench::new("").file("gaia.toml", &format!("{COMPLETE}{SUBMIT}"));
    let loaded = bench.try_load_file(None).unwrap();
    assert_eq!(loaded.file, Some(bench.dir.path().join("gaia.toml")));
    let mut bench = Bench::new("");
    bench.purpose = Purpose::Tools;
    let loaded = bench.try_load_file(None).unwrap();
    assert_eq!(
        (loaded.file, loaded.config),
        (
            None,
            Config {
                run: RunConfig { out: bench.dir.path().join("runs"), ..RunConfig::default() },
                ..Config::default()
            }
        )
    );
}

#[test]
fn paths_are_relative_to_where_they_are_written() {
    let bench = Bench::new("").file(
        "sub/c.toml",
        &format!("{COMPLETE}[run]\nout = \"o\"\n[mcp_servers.a]\ncommand=\"x\"\ncwd=\"~/w\"\n{SUBMIT}"),
    );
    let bench = bench.variable("HOME", "/home/u");
    let loaded = bench.try_load_file(Some(Path::new("sub/c.toml"))).unwrap();
    let sub = bench.dir.path().join("sub");
    assert_eq!(loaded.config.dataset.path, Some(sub.join("data")));
    assert_eq!(loaded.config.run.out, sub.join("o"));
    assert_eq!(loaded.config.mcp_servers["a"].cwd.as_deref(), Some(Path::new("/home/u/w")));
    assert_eq!(loaded.base, sub);
    let loaded = bench.set("dataset.path", "else").try_load_file(Some(Path::new("sub/c.toml"))).unwrap();
    assert_eq!(
        loaded.config.dataset.path.unwrap().strip_prefix(sub.parent().unwrap()).unwrap(),
        Path::new("else")
    );
}

#[test]
fn server_tables_are_enough_for_tools() {
    let loaded = Bench::tools("[mcp_servers.a]\ncommand = \"x\"\n[model]\napi_key_env = \"NOT_SET\"").load();
    assert_eq!(loaded.servers.len(), 1);
    assert!(loaded.api_key.is_none());
}

#[test]
fn a_server_comes_out_as_written() {
    let loaded = Bench::tools(
        r#"
        [mcp_servers.local]
        command = "${TOOLS}/x"
        args = ["--at", "${env:PORT:-${OTHER:-80}}", "$${KEPT}", "$HOME", "a${EMPTY}b${EMPTY:-c}"]
        env = { TOKEN = "${TOKEN}", PLAIN = "p" }
        env_vars = ["PASSED", "ABSENT"]
        scope = "run"
        max_concurrent_calls = 3
        enabled_tools = ["a_*"]
        disabled_tools = ["a_b"]
        startup_timeout_sec = 1.5
        tool_timeout_sec = 7
        required = false
        [mcp_servers.remote]
        url = "http://${HOST}:1/mcp"
        bearer_token_env_var = "TOKEN"
        headers = { X-Team = "evals", X-Key = "k-${TOKEN}" }
        protocol = "2026"
        "#,
    )
    .variable("TOOLS", "/t")
    .variable("TOKEN", "secret-token-1")
    .variable("PASSED", "passed-value")
    .variable("HOST", "h")
    .variable("EMPTY", "")
    .variable("OTHER", "81")
    .load();
    let [local, remote] = loaded.servers.as_slice() else { panic!("two servers") };
    let TransportSpec::Stdio { command, args, env, cwd } = &local.transport else { panic!("not stdio") };
    assert_eq!((command.as_str(), cwd), ("/t/x", &None));
    assert_eq!(args, &["--at", "81", "${KEPT}", "$HOME", "abc"]);
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env, [("PASSED", "passed-value"), ("PLAIN", "p"), ("TOKEN", "secret-token-1")]);
    assert_eq!((local.scope, local.required, local.protocol), (Scope::Run, false, Protocol::Auto));
    assert_eq!((local.startup_timeout.as_millis(), local.tool_timeout.as_secs()), (1500, 7));
    assert_eq!(local.enabled_tools.as_deref(), Some(&["a_*".to_owned()][..]));
    let TransportSpec::Http { url, headers, bearer_token, .. } = &remote.transport else {
        panic!("not HTTP")
    };
    assert_eq!((url.as_str(), bearer_token.as_deref()), ("http://h:1/mcp", Some("secret-token-1")));
    assert_eq!(headers["X-Key"], "k-secret-token-1");
    assert_eq!((remote.scope, remote.required, remote.protocol), (Scope::Sample, true, Protocol::Modern));
}

#[test]
fn a_missing_variable_is_named_with_key_and_position() {
    let error =
        Bench::complete("[mcp_servers.a]\ncommand = \"x\"\nargs = [\"-k\", \"pre${NO_SUCH}\"]").error();
    check_contains(
        &error,
        &[
            "run.toml:7:19: `mcp_servers.a.args.1`: environment variable `NO_SUCH` is not set",
            "7 | args = [\"-k\", \"pre${NO_SUCH}\"]",
            "|                   ^^^^^^^^^^",
            "`${NO_SUCH:-…}`",
        ],
    );
    for malformed in ["${}", "${a b}", "${open", "${workspaceFolder:x}"] {
        let error = Bench::tools(&format!("[mcp_servers.a]\ncommand = \"x{malformed}\"")).error();
        check_contains(&error, &["is no variable", "run.toml:2:13"]);
    }
}

#[test]
fn the_key_comes_from_the_variable_that_is_named() {
    let with_key = |variable: &str| Bench::new(&format!("{COMPLETE}api_key_env = \"{variable}\"\n{SUBMIT}"));
    let error = with_key("MY_KEY").error();
    check_contains(
        &error,
        &["run.toml:5:15: environment variable `MY_KEY` is not set, which `model.api_key_env` names"],
    );
    check_contains(&with_key("MY_KEY").variable("MY_KEY", "").error(), &["`MY_KEY` is not set"]);

    let loaded = with_key("MY_KEY").variable("MY_KEY", "sk-value-of-key").load();
    assert_eq!(loaded.api_key.as_ref().unwrap().expose(), "sk-value-of-key");
    assert!(!format!("{loaded:?}").contains("sk-value"), "{loaded:?}");
    assert_eq!(loaded.secrets.redact("401 for sk-value-of-key."), "401 for [redacted].");
    assert!(!loaded.effective.to_string().contains("sk-value"));

    let error = with_key("sk-proj-abc").error();
    check_contains(&error, &["must be the NAME of an environment variable"]);

    let rehearsal = Bench::new(&format!("{COMPLETE}rehearsal = true\napi_key_env = \"MY_KEY\"\n{SUBMIT}"));
    assert!(rehearsal.load().api_key.is_none());
    assert!(Bench::complete("").variable("OPENAI_API_KEY", "sk-stray").load().api_key.is_none());
}

#[test]
fn stray_variables_of_the_openai_client_do_not_count() {
    let loaded = Bench::complete("").variable("OPENAI_BASE_URL", "http://stray").load();
    assert_eq!(loaded.config.model.base_url, None);
}

#[test]
fn dotenv_fills_and_never_overrides() {
    let text = "\u{feff}# comment\nexport A='one # two'\nB = \"x\\ty\" # c\nC=plain # c\nD=\nGAIA_MODEL=from-file\r\n";
    let args = "[mcp_servers.a]\ncommand = \"x\"\nargs = [\"${A}\", \"${B}\", \"${C}\", \"${D}\", \"${E}\"]";
    let bench = Bench::complete(args).file(".env", text).variable("C", "set").variable("E", "e");
    let loaded = bench.load();
    let TransportSpec::Stdio { args, .. } = &loaded.servers[0].transport else { panic!("not stdio") };
    assert_eq!(args, &["one # two", "x\ty", "set", "", "e"]);
    assert_eq!(loaded.config.model.name.as_deref(), Some("from-file"));
    assert_eq!(loaded.environment.get("A"), Some("one # two"));

    let bench = Bench::complete("").file(".env", "A=1\nB=\"open-secret\n");
    let error = bench.error();
    check_contains(&error, &[".env:2:1: value of `B`: the closing quote is missing"]);
    assert!(!error.contains("open-secret"), "{error}");
    check_contains(
        &Bench::complete("").file(".env", "secret words\n").error(),
        &[".env:1:1: not of the form `NAME=value`"],
    );
}

#[test]
fn the_dotenv_beside_the_config_comes_first() {
    let bench =
        Bench::new("").file("sub/c.toml", "").file("sub/.env", "A=beside").file(".env", "A=working\nB=b");
    let bench = Bench { purpose: Purpose::Tools, ..bench };
    let loaded = bench.try_load_file(Some(Path::new("sub/c.toml"))).unwrap();
    assert_eq!((loaded.environment.get("A"), loaded.environment.get("B")), (Some("beside"), Some("b")));
}

#[test]
fn no_secret_is_in_the_effective_config() {
    let bench = Bench::complete(
        r#"
        [model.server]
        command = "x"
        args = ["--api-key", "literal-1"]
        [model.params]
        api_key = "literal-2"
        max_tokens = 100
        prompt_cache_key = "kept-5"
        [mcp_servers.a]
        command = "docker"
        args = ["run", "--token=literal-3", "-e", "GITHUB_TOKEN=literal-4", "--header", "Authorization: Bearer literal-5",
                "--password", "literal-6", "https://user:literal-7@host/x?a=b&api_key=literal-8", "--keep", "kept-1", "${VAR_SECRET}"]
        env = { API_KEY = "literal-9", UNSUSPECTED = "${VAR_PLAIN}", PLAIN = "kept-2", B_TOKEN = "${VAR_SECRET:-literal-10}" }
        [mcp_servers.b]
        url = "https://x/?token=literal-11&q=kept-3"
        headers = { Authorization = "Bearer literal-12", X-Auth = "Bearer ${VAR_SECRET}", X-Team = "kept-4" }
        "#,
    )
    .variable("VAR_SECRET", "value-of-secret")
    .variable("VAR_PLAIN", "value-of-plain");
    let loaded = bench.load();
    let effective = loaded.effective.to_string();
    for hidden in ["literal-", "value-of-"] {
        assert!(!effective.contains(hidden), "`{hidden}` is in:\n{effective}");
    }
    for kept in [
        "kept-1",
        "kept-2",
        "kept-3",
        "kept-4",
        "kept-5",
        "${VAR_PLAIN}",
        "Bearer ${VAR_SECRET}",
        "max_tokens = 100",
    ] {
        assert!(effective.contains(kept), "`{kept}` is not in:\n{effective}");
    }
    let secrets: Vec<&str> = loaded.secrets.iter().collect();
    for secret in [
        "value-of-secret",
        "value-of-plain",
        "literal-9",
        "literal-12",
        "literal-7",
        "literal-1",
        "literal-3",
        "literal-4",
        "literal-5",
        "literal-6",
        "literal-8",
        "literal-11",
    ] {
        assert!(secrets.contains(&secret), "`{secret}` is not in {secrets:?}");
    }
}

#[test]
fn errors_do_not_repeat_secrets() {
    for fragment in [
        "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a.env]\nAPI_KEY = [\"sk-123456\"]",
        "[mcp_servers.a]\ncommand = \"x\"\napi_token = \"sk-123456\"",
    ] {
        let error = Bench::complete(fragment).error();
        assert!(!error.contains("sk-123456"), "{error}");
    }
}

#[test]
fn the_effective_config_loads_to_the_same_config() {
    let bench = Bench::complete(
        "[agent]\nsample_timeout = \"1h 5m\"\n[model.params]\nx = { y = [1] }\n[mcp_servers.b]\nurl = \"http://x\"\nprotocol = 2025",
    );
    let first = bench.load();
    let again = Bench::new(&toml::to_string(&first.effective).unwrap()).load();
    assert_eq!(first.config, again.config);
}

#[test]
fn a_likely_mistyped_variable_is_a_warning() {
    let loaded = Bench::complete("").variable("GAIA_MODL", "x").variable("GAIA_ARCHIVE", "x").load();
    assert_eq!(
        loaded.warnings,
        ["environment variable `GAIA_MODL` means nothing here, did you mean `GAIA_MODEL`?"]
    );
}

fn configs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs")
}

#[test]
fn the_committed_schema_is_up_to_date() {
    let path = configs().join("config.schema.json");
    let expected = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    let committed = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == expected,
        "run `gaia schema > configs/config.schema.json`; it must hold:\n{expected}"
    );
}

#[test]
fn the_presets_load() {
    let environment = Environment::from_iter([("OPENAI_API_KEY".to_owned(), "sk-test-key".to_owned())]);
    for (name, base_url, model, rehearsal) in
        [("rehearsal.toml", None, "rehearsal", true), ("gaia.toml", Some(DEFAULT_BASE_URL), "gpt-5.1", false)]
    {
        let loaded = load(&Sources {
            file: Some(Path::new(name)),
            overrides: &[],
            environment: &environment,
            working_dir: &configs(),
            purpose: Purpose::Run,
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(loaded.config.model.base_url.as_deref(), base_url);
        assert_eq!(loaded.config.model.name.as_deref(), Some(model));
        assert_eq!(loaded.config.model.rehearsal, rehearsal);
        assert_eq!(loaded.config.dataset.path, Some(configs().join("samples")));
        let names: Vec<&str> = loaded.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["bash", "submit"]);
    }
}

proptest::proptest! {
    /// Whatever stands in a file, it is answered and not fallen over.
    #[test]
    fn nothing_written_is_a_panic(text in "(\\PC|[\\x00-\\x7f]|\\$\\{|\\}|[\"'=:/@?&-]){0,60}", start in 0_usize..80, end in 0_usize..80) {
        let environment = Environment::default();
        let variables = expand::Variables { environment: &environment, config_dir: "/c" };
        match variables.expand(&text) {
            Ok(expanded) => {
                let plain = !text.contains("${");
                proptest::prop_assert!(!plain || expanded.text == text);
            }
            Err(error) => proptest::prop_assert!(text.contains(error.reference())),
        }
        let source = source::SourceText::new(Path::new("x.toml"), Path::new(""), text.clone(), source::SourceKind::Config);
        let source = std::sync::Arc::new(source);
        let _variables_or_problem = dotenv::parse(&source).map_err(|problem| problem.to_string());
        let shown = Problem::new(Some(problem::Place::File { source, span: start..end }), "m").to_string();
        proptest::prop_assert!(shown.starts_with("x.toml:"));
        let mut config = Config::default();
        let server = ServerConfig { url: Some(text.clone()), args: vec![text.clone(), text.clone()], ..ServerConfig::default() };
        config.mcp_servers.insert("a".into(), server);
        proptest::prop_assert!(effective::effective(&config, &mut Secrets::default()).is_ok());
        let bench = Bench::tools(&text);
        if let Err(error) = bench.try_load() {
            proptest::prop_assert!(!error.to_string().is_empty());
        }
        let pasted = format!("{{\"mcpServers\": {{\"a\": {{\"command\": {}, \"env\": {{{text}}}}}}}}}", serde_json::json!(text));
        let bench = Bench::tools("mcp_config = [\"m.json\"]").file("m.json", &pasted);
        if let Err(error) = bench.try_load() {
            proptest::prop_assert!(!error.to_string().is_empty());
        }
    }
}
