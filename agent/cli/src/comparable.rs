//! What may change between two sessions of a run, and what would make its results incomparable.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::{Table, Value};

use crate::config::with_defaults;
use crate::store::RunRecord;

/// Keys that change how a run gets done and not what its answers are worth: where the model is reached and how
/// patiently, how much may be spent, how many at a time. Everything else decides what the model sees or says.
const FREE_KEYS: [&str; 35] = [
    "run",
    "agent.budget",
    "agent.max_steps",
    "agent.sample_timeout",
    "model.api_key_env",
    "model.base_url",
    "model.catalog",
    "model.idle_timeout",
    "model.max_concurrent_requests",
    "model.max_retries",
    // Compared by the name it came to.
    "model.name",
    "model.price",
    "model.request_timeout",
    "model.requests_per_minute",
    "model.stream",
    "model.tokens_per_minute",
    "strategy.*.api_key_env",
    "strategy.*.base_url",
    "strategy.*.catalog",
    "strategy.*.idle_timeout",
    "strategy.*.max_concurrent_requests",
    "strategy.*.max_retries",
    "strategy.*.price",
    "strategy.*.request_timeout",
    "strategy.*.requests_per_minute",
    "strategy.*.stream",
    "strategy.*.tokens_per_minute",
    "external.env_vars",
    // The questions are compared by their fingerprint and by the list in the run.
    "dataset",
    // What is in them is compared; where it came from does not matter.
    "mcp_config",
    "mcp_servers.*.startup_timeout_sec",
    "mcp_servers.*.tool_timeout_sec",
    "mcp_servers.*.max_concurrent_calls",
    "mcp_servers.*.bearer_token_env_var",
    "mcp_servers.*.headers",
];

/// One thing that is not what it was when the run began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The key of the config, or what it is in words.
    pub what: String,
    pub before: String,
    pub now: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {} → {}", self.what, self.before, self.now)
    }
}

/// What is known of a session before it begins.
pub(crate) struct Today<'a> {
    pub(crate) config: &'a Table,
    pub(crate) model: &'a str,
    /// Fingerprint of the system prompt; `None` as long as it is not known.
    pub(crate) prompt: Option<&'a str>,
    /// `None` as long as no server was started.
    pub(crate) tools: Option<&'a [String]>,
    pub(crate) images: &'a BTreeMap<String, String>,
}

/// Everything of today that would make answers incomparable with those the run has.
pub(crate) fn differences(record: &RunRecord, today: &Today<'_>) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note = |what: &str, before: &str, now: &str| {
        if before != now {
            let (before, now) = (before.to_owned(), now.to_owned());
            found.push(Difference { what: what.to_owned(), before, now });
        }
    };
    note("model", &record.model, today.model);
    // Runs of before this was recorded are given the benefit of the doubt.
    if let (Some(prompt), Some(now)) = (&record.prompt, today.prompt) {
        note("fingerprint of the system prompt", prompt, now);
    }
    if let Some(tools) = today.tools {
        note("tools that the model is offered", &record.tools.join(", "), &tools.join(", "));
    }
    // A key that came after the run began counts as what it is when nobody sets it.
    compare(&with_defaults(&record.config), &with_defaults(today.config), "", is_free, &mut found);
    for (server, before) in record.sessions.first().into_iter().flat_map(|session| &session.images) {
        if let Some(now) = today.images.get(server).filter(|now| *now != before) {
            found.push(Difference {
                what: format!("sandbox image of `{server}`"),
                before: before.clone(),
                now: now.clone(),
            });
        }
    }
    found
}

/// Everything in which a run differs from an earlier one by what was asked of it, whether it bears on answers or not.
pub(crate) fn changes(before: &RunRecord, now: &RunRecord) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut note = |what: &str, before: String, now: String| {
        if before != now {
            found.push(Difference { what: what.to_owned(), before, now });
        }
    };
    note("gaia", before.program_version.clone(), now.program_version.clone());
    note("model", before.model.clone(), now.model.clone());
    note("how an answer comes about", before.strategy.label(), now.strategy.label());
    if let (Some(before), Some(now)) = (&before.prompt, &now.prompt) {
        note("fingerprint of the system prompt", before.clone(), now.clone());
    }
    note("fingerprint of the dataset", before.dataset.fingerprint.clone(), now.dataset.fingerprint.clone());
    note("tools that the model is offered", before.tools.join(", "), now.tools.join(", "));
    let images = |record: &RunRecord| record.sessions.first().map(|session| session.images.clone());
    for (server, before) in images(before).into_iter().flatten() {
        if let Some(now) = images(now).and_then(|images| images.get(&server).cloned()) {
            note(&format!("sandbox image of `{server}`"), before, now);
        }
    }
    // The model's name is there already, as it came to be.
    let is_known = |key: &str| key == "model.name" || key == "run.out";
    compare(&before.config, &now.config, "", is_known, &mut found);
    found
}

/// Keys of `[model]` that stand in every request and in no event: only the config tells that they changed.
const REQUEST_KEYS: [&str; 7] =
    ["api", "stream", "tool_calls", "parallel_tool_calls", "reasoning_field", "schema_profile", "params"];

/// What of a request differs, whatever the conversation in it.
pub(crate) fn request_differences(record: &RunRecord, model: &str, config: &Table) -> Vec<Difference> {
    let mut found = Vec::new();
    if record.model != model {
        let (before, now) = (record.model.clone(), model.to_owned());
        found.push(Difference { what: "model.name".to_owned(), before, now });
    }
    let no_part_of_it = |path: &str| match path.strip_prefix("model.") {
        Some(key) => !REQUEST_KEYS.contains(&key.split('.').next().unwrap_or_default()),
        None => path != "model",
    };
    compare(&with_defaults(&record.config), &with_defaults(config), "", no_part_of_it, &mut found);
    found
}

fn is_free(path: &str) -> bool {
    FREE_KEYS.iter().any(|free| matches(free, path))
}

/// Notes every key that differs, but for those that are skipped.
fn compare(
    before: &Table,
    now: &Table,
    prefix: &str,
    is_skipped: fn(&str) -> bool,
    found: &mut Vec<Difference>,
) {
    let mut keys: Vec<&String> = before.keys().chain(now.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if is_skipped(&path) {
            continue;
        }
        match (before.get(key), now.get(key)) {
            (before, now) if before == now => {}
            (Some(Value::Table(before)), Some(Value::Table(now))) => {
                compare(before, now, &path, is_skipped, found)
            }
            (before, now) => found.push(Difference { what: path, before: shown(before), now: shown(now) }),
        }
    }
}

/// A pattern whose parts are words or `*`.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), path.split('.').collect());
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(part, word)| *part == "*" || *part == word)
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "not set".to_owned(), Value::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Session, test_record};

    fn record(config: Table) -> RunRecord {
        let mut record = test_record(&[]);
        record.config = config;
        record.tools = vec!["a/x".to_owned()];
        record
    }

    fn found(before: Table, now: &Table) -> Vec<String> {
        let (tools, images) = (["a/x".to_owned()], BTreeMap::new());
        let today = Today {
            config: now,
            model: "some-model",
            prompt: Some("p"),
            tools: Some(&tools),
            images: &images,
        };
        differences(&record(before), &today).into_iter().map(|difference| difference.what).collect()
    }

    #[test]
    fn what_stands_in_every_request_is_seen_in_the_config_alone() {
        let before = toml::toml! {
            [model]
            name = "m"
            base_url = "http://a/v1"
            [model.params]
            temperature = 0.5
        };
        let found = |model: &str, now: &Table| {
            let found = request_differences(&record(before.clone()), model, now).into_iter();
            found.map(|difference| difference.to_string()).collect::<Vec<_>>()
        };
        let mut now = before.clone();
        now["model"]["base_url"] = "http://b/v1".into();
        now.insert("agent".to_owned(), toml::toml! { max_steps = 2 }.into());
        assert_eq!(found("some-model", &now), [""; 0], "where it goes to and how long it goes on");
        now["model"]["params"]["temperature"] = 0.7.into();
        let table = now["model"].as_table_mut().unwrap();
        table.insert("parallel_tool_calls".to_owned(), false.into());
        assert_eq!(
            found("other", &now),
            [
                "model.name: some-model → other",
                "model.parallel_tool_calls: not set → false",
                "model.params.temperature: 0.5 → 0.7"
            ]
        );
    }

    #[test]
    fn limits_endpoint_key_and_concurrency_may_change() {
        let before = toml::toml! {
            [model]
            name = "m"
            base_url = "http://a/v1"
            api_key_env = "A"
            [agent]
            max_steps = 5
            [agent.budget]
            tokens = 5
            [run]
            concurrency = 1
            [mcp_servers.a]
            command = "x"
            tool_timeout_sec = 5
        };
        let now = toml::toml! {
            [model]
            name = "m"
            base_url = "http://b/v1"
            api_key_env = "B"
            stream = true
            [agent]
            max_steps = 50
            sample_timeout = "1h"
            [run]
            concurrency = 9
            budget = { cost_usd = 5.0 }
            [mcp_servers.a]
            command = "x"
            tool_timeout_sec = 50
        };
        assert_eq!(found(before, &now), Vec::<String>::new());
    }

    #[test]
    fn a_key_that_is_newer_than_the_run_counts_as_unset() {
        let before = toml::toml! {
            [model]
            name = "m"
            [mcp_servers.a]
            command = "x"
        };
        let now = |order: bool, bytes: i64| {
            let mut now = with_defaults(&before);
            now["agent"]["result_bytes"] = bytes.into();
            now["mcp_servers"]["a"]["supports_parallel_tool_calls"] = order.into();
            now
        };
        let default = with_defaults(&before)["agent"]["result_bytes"].as_integer().unwrap();
        assert_eq!(found(before.clone(), &now(false, default)), Vec::<String>::new());
        let changed = found(before.clone(), &now(true, 5));
        assert_eq!(changed, ["agent.result_bytes", "mcp_servers.a.supports_parallel_tool_calls"]);
    }

    #[test]
    fn what_the_model_sees_or_says_may_not() {
        let before = toml::toml! {
            [model]
            name = "m"
            [model.params]
            temperature = 0.7
            [mcp_servers.a]
            command = "x"
        };
        let now = toml::toml! {
            [model]
            name = "n"
            accepts = ["image"]
            [model.params]
            temperature = 0.0
            [agent]
            result_bytes = 5
            [mcp_servers.a]
            command = "x"
            args = ["-v"]
            [mcp_servers.b]
            command = "y"
        };
        assert_eq!(
            found(before, &now),
            [
                "agent.result_bytes",
                "mcp_servers.a.args",
                "mcp_servers.b",
                "model.accepts",
                "model.params.temperature"
            ]
        );
    }

    #[test]
    fn another_strategy_or_model_of_a_role_is_another_run_but_its_endpoint_is_not() {
        let before = || {
            toml::toml! {
                [strategy]
                name = "vote"
                runs = 3
                [strategy.judge]
                name = "a"
                base_url = "http://a/v1"
            }
        };
        let now = toml::toml! {
            [strategy]
            name = "vote"
            runs = 3
            [strategy.judge]
            name = "a"
            base_url = "http://b/v1"
            api_key_env = "B"
            requests_per_minute = 60
            tokens_per_minute = 100_000
            max_concurrent_requests = 2
        };
        assert_eq!(found(before(), &now), Vec::<String>::new());
        let now = toml::toml! {
            [strategy]
            name = "vote"
            runs = 5
            [strategy.judge]
            name = "b"
            base_url = "http://a/v1"
        };
        assert_eq!(found(before(), &now), ["strategy.judge.name", "strategy.runs"]);
        assert_eq!(found(before(), &Table::new()), ["strategy"]);
        let agent = toml::toml! {
            [external]
            agent = "human"
        };
        assert_eq!(found(Table::new(), &agent), ["external"]);
    }

    #[test]
    fn between_two_runs_every_change_is_told() {
        let mut before = record(toml::toml! {
            [model]
            name = "m"
            base_url = "http://a/v1"
            [run]
            concurrency = 1
            out = "x"
        });
        let mut now = before.clone();
        assert_eq!(changes(&before, &now), []);
        now.config = toml::toml! {
            [model]
            name = "n"
            base_url = "http://b/v1"
            [run]
            concurrency = 2
            out = "y"
        };
        now.model = "n".to_owned();
        now.strategy = crate::store::Method::Plan;
        before.prompt = Some("p".to_owned());
        let texts: Vec<String> = changes(&before, &now).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "model: some-model → n",
                "how an answer comes about: single run → single run with plans",
                "model.base_url: \"http://a/v1\" → \"http://b/v1\"",
                "run.concurrency: 1 → 2",
            ]
        );
    }

    #[test]
    fn tools_and_images_are_compared_as_they_are_and_not_as_they_are_written() {
        let mut record = record(Table::new());
        record.sessions.push(Session {
            started: record.started,
            ended: None,
            concurrency: 1,
            endpoint: String::new(),
            images: BTreeMap::from([("bash".to_owned(), "a:1".to_owned())]),
            config: None,
            changes: Vec::new(),
        });
        let config = Table::new();
        let tools = ["a/x".to_owned(), "a/y".to_owned()];
        let images = BTreeMap::from([("bash".to_owned(), "a:2".to_owned())]);
        record.prompt = Some("p".to_owned());
        let today = Today {
            config: &config,
            model: "other",
            prompt: Some("q"),
            tools: Some(&tools),
            images: &images,
        };
        let texts: Vec<String> = differences(&record, &today).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "model: some-model → other",
                "fingerprint of the system prompt: p → q",
                "tools that the model is offered: a/x → a/x, a/y",
                "sandbox image of `bash`: a:1 → a:2"
            ]
        );
    }
}
