use serde::Deserialize as _;
use toml::{Table, Value};

use super::expand::literal_part;
use super::resolve::without_scheme;
use super::secret::{REDACTED, Secrets, looks_secret};
use super::settings::Config;

/// The config as it counts, for `run.json`: variables unexpanded, literal secrets replaced and noted.
pub(super) fn effective(config: &Config, secrets: &mut Secrets) -> Result<Table, toml::ser::Error> {
    let mut table = Table::try_from(config)?;
    // Their servers are part of `mcp_servers` by now.
    table.remove("mcp_config");
    let mut redaction = Redaction { secrets };
    if let Some(Value::Table(model)) = table.get_mut("model") {
        redaction.address(model.get_mut("base_url"));
        redaction.named(model.get_mut("params"), holds_credential);
        if let Some(Value::Table(server)) = model.get_mut("server") {
            redaction.arguments(server.get_mut("args"));
        }
    }
    if let Some(Value::Table(strategy)) = table.get_mut("strategy") {
        for (_, role) in strategy.iter_mut() {
            let Value::Table(role) = role else { continue };
            redaction.address(role.get_mut("base_url"));
            redaction.named(role.get_mut("params"), holds_credential);
        }
    }
    if let Some(Value::String(agent)) =
        table.get_mut("external").and_then(|external| external.get_mut("agent"))
        && let Some(words) = agent.strip_prefix("command:").and_then(shlex::split)
    {
        let mut words = Value::from(words);
        redaction.arguments(Some(&mut words));
        let words: Vec<&str> = words.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        // Fails only for zero bytes, which no command line has.
        if let Ok(line) = shlex::try_join(words) {
            *agent = format!("command:{line}");
        }
    }
    if let Some(Value::Table(servers)) = table.get_mut("mcp_servers") {
        for (_, server) in servers.iter_mut() {
            let Value::Table(server) = server else { continue };
            redaction.address(server.get_mut("url"));
            redaction.arguments(server.get_mut("args"));
            redaction.named(server.get_mut("env"), looks_secret);
            redaction.named(server.get_mut("headers"), looks_secret);
        }
    }
    Ok(table)
}

/// A stored config with today's defaults for what it does not set, which may be younger than it.
pub(crate) fn with_defaults(stored: &Table) -> Table {
    let completed = Config::deserialize(Value::Table(stored.clone())).map(Table::try_from);
    // What is no config of today stands as it is, and differs.
    completed.ok().and_then(Result::ok).unwrap_or_else(|| stored.clone())
}

struct Redaction<'a> {
    secrets: &'a mut Secrets,
}

impl Redaction<'_> {
    /// The text, or what stands for it when part of it was written out.
    fn text(&mut self, text: &str) -> String {
        if !holds_literal(text) {
            return text.to_owned();
        }
        self.secrets.insert(without_scheme(text.trim()));
        REDACTED.to_owned()
    }

    /// Texts under names that look like secrets, at any depth.
    fn named(&mut self, value: Option<&mut Value>, is_secret: fn(&str) -> bool) {
        let Some(Value::Table(table)) = value else { return };
        for (name, value) in table.iter_mut() {
            match value {
                Value::String(text) if is_secret(name) => *text = self.text(text),
                Value::Table(_) => self.named(Some(value), is_secret),
                _ => {}
            }
        }
    }

    /// `--token VALUE`, `--token=VALUE`, `NAME_TOKEN=VALUE` (as `docker run -e` has it), `Authorization: VALUE`
    /// (as `mcp-remote --header` has it), and addresses with credentials.
    fn arguments(&mut self, value: Option<&mut Value>) {
        let Some(Value::Array(arguments)) = value else { return };
        let mut after_secret_flag = false;
        for argument in arguments {
            let Value::String(text) = argument else { continue };
            let was_after = std::mem::take(&mut after_secret_flag);
            if was_after && !text.starts_with('-') {
                *text = self.text(text);
            } else if text.contains("://") && !text.starts_with('-') {
                *text = self.url(text);
            } else if let Some(at) = text.find(['=', ':'])
                && looks_secret(&text[..at])
                && !text[..at].contains(char::is_whitespace)
            {
                *text = format!("{}{}", &text[..=at], self.text(&text[at + 1..]));
            } else {
                after_secret_flag = text.starts_with('-') && looks_secret(text);
            }
        }
    }

    fn address(&mut self, value: Option<&mut Value>) {
        if let Some(Value::String(text)) = value {
            *text = self.url(text);
        }
    }

    /// Credentials before `@`, and query parameters with names that look like secrets.
    fn url(&mut self, url: &str) -> String {
        let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let authority = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let (name, password) = user.split_once(':').unwrap_or(("", user));
                let password = self.text(password);
                let separator = if name.is_empty() { "" } else { ":" };
                format!("{name}{separator}{password}@{host}")
            }
            None => authority.to_owned(),
        };
        let Some((path, query)) = rest.split_once('?') else {
            return format!("{scheme}://{authority}{rest}");
        };
        let mut pairs = Vec::new();
        for pair in query.split('&') {
            pairs.push(match pair.split_once('=') {
                Some((name, value)) if looks_secret(name) => format!("{name}={}", self.text(value)),
                _ => pair.to_owned(),
            });
        }
        format!("{scheme}://{authority}{path}?{}", pairs.join("&"))
    }
}

/// Stricter than [`looks_secret`]: vendors have harmless parameters such as `prompt_cache_key` and `stop_token_ids`.
fn holds_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["api_key", "api-key", "apikey", "secret", "passw", "credential", "authorization", "access_token"]
        .iter()
        .any(|word| name.contains(word))
}

/// Whether something is left when variables and the name of the scheme (of `Bearer ${TOKEN}`) are taken out.
fn holds_literal(text: &str) -> bool {
    let literal = literal_part(text);
    let literal = literal.trim();
    !literal.is_empty() && !["bearer", "basic", "token"].contains(&literal.to_ascii_lowercase().as_str())
}
