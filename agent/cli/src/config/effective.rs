use toml::{Table, Value};

use super::expand::literal_part;
use super::resolve::without_scheme;
use super::secret::{REDACTED, looks_secret};
use super::settings::Config;

/// The config as it counts, for `run.json`: variables unexpanded, literal secrets replaced.
pub(super) fn effective(config: &Config) -> Result<Table, toml::ser::Error> {
    let mut table = Table::try_from(config)?;
    if let Some(Value::Table(model)) = table.get_mut("model") {
        redact_at(model, "base_url", redact_url);
        redact_named(model.get_mut("params"));
        if let Some(Value::Table(server)) = model.get_mut("server") {
            redact_arguments(server.get_mut("args"));
        }
    }
    if let Some(Value::Table(servers)) = table.get_mut("mcp_servers") {
        for (_, server) in servers.iter_mut() {
            let Value::Table(server) = server else { continue };
            redact_at(server, "url", redact_url);
            redact_arguments(server.get_mut("args"));
            redact_named(server.get_mut("env"));
            redact_named(server.get_mut("headers"));
        }
    }
    Ok(table)
}

fn redact_at(table: &mut Table, key: &str, redact: fn(&str) -> String) {
    if let Some(Value::String(text)) = table.get_mut(key) {
        *text = redact(text);
    }
}

/// Texts under names that look like secrets, at any depth.
fn redact_named(value: Option<&mut Value>) {
    let Some(Value::Table(table)) = value else { return };
    for (name, value) in table.iter_mut() {
        match value {
            Value::String(text) if looks_secret(name) && holds_literal(text) => *text = REDACTED.to_owned(),
            Value::Table(_) => redact_named(Some(value)),
            _ => {}
        }
    }
}

fn holds_literal(text: &str) -> bool {
    let literal = literal_part(text);
    // What is left of `Bearer ${TOKEN}` is the name of the scheme.
    let literal = literal.trim();
    !literal.is_empty()
        && !["bearer", "basic", "token"].contains(&literal.to_ascii_lowercase().as_str())
        && !without_scheme(literal).is_empty()
}

/// `--token VALUE`, `--token=VALUE`, `NAME_TOKEN=VALUE` (as `docker run -e` has it), `Authorization: VALUE`
/// (as `mcp-remote --header` has it), and addresses with credentials.
fn redact_arguments(value: Option<&mut Value>) {
    let Some(Value::Array(arguments)) = value else { return };
    let mut after_secret_flag = false;
    for argument in arguments {
        let Value::String(text) = argument else { continue };
        let was_after = std::mem::take(&mut after_secret_flag);
        if was_after && !text.starts_with('-') {
            if holds_literal(text) {
                *text = REDACTED.to_owned();
            }
        } else if text.contains("://") && !text.starts_with('-') {
            *text = redact_url(text);
        } else if let Some(at) = text.find(['=', ':'])
            && looks_secret(&text[..at])
            && !text[..at].contains(char::is_whitespace)
        {
            if holds_literal(&text[at + 1..]) {
                text.truncate(at + 1);
                text.push_str(REDACTED);
            }
        } else {
            after_secret_flag = text.starts_with('-') && looks_secret(text);
        }
    }
}

/// Credentials before `@`, and query parameters with names that look like secrets.
fn redact_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) if holds_literal(&user.replace(':', "")) => format!("{REDACTED}@{host}"),
        _ => authority.to_owned(),
    };
    let Some((path, query)) = rest.split_once('?') else { return format!("{scheme}://{authority}{rest}") };
    let query: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, value)) if looks_secret(name) && holds_literal(value) => format!("{name}={REDACTED}"),
            _ => pair.to_owned(),
        })
        .collect();
    format!("{scheme}://{authority}{path}?{}", query.join("&"))
}
