use std::sync::Arc;

use super::expand::is_variable_name;
use super::problem::{Place, Problem};
use super::source::SourceText;

/// Reads `NAME=value` lines: `#` comments, `export ` in front, single quotes (as it is) and double quotes
/// (`\n`, `\t`, `\"`, `\\`, `\$`). Variables inside values are not expanded.
pub(super) fn parse(source: &Arc<SourceText>) -> Result<Vec<(String, String)>, Problem> {
    let mut variables = Vec::new();
    let mut offset = 0;
    for line in source.text.split_inclusive('\n') {
        let content = line.trim_start_matches('\u{feff}').trim();
        if !content.is_empty() && !content.starts_with('#') {
            let variable = parse_line(content).map_err(|message| {
                // Only the name is marked: the rest of the line may be a secret.
                let start = offset + (line.len() - line.trim_start().len());
                let place = Place::File { source: source.clone(), span: start..start + 1 };
                Problem::new(Some(place), message)
            })?;
            variables.push(variable);
        }
        offset += line.len();
    }
    Ok(variables)
}

fn parse_line(line: &str) -> Result<(String, String), String> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').ok_or("not of the form `NAME=value`")?;
    let name = name.trim();
    if !is_variable_name(name) {
        return Err("not of the form `NAME=value`: the name is not one of a variable".to_owned());
    }
    let value = parse_value(value.trim()).map_err(|message| format!("value of `{name}`: {message}"))?;
    Ok((name.to_owned(), value))
}

fn parse_value(text: &str) -> Result<String, &'static str> {
    const AFTER: &str = "only a comment may follow the closing quote";
    if let Some(quoted) = text.strip_prefix('\'') {
        let (value, rest) = quoted.split_once('\'').ok_or("the closing quote is missing")?;
        return if is_comment(rest) { Ok(value.to_owned()) } else { Err(AFTER) };
    }
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(" #").or_else(|| text.find("\t#")).unwrap_or(text.len());
        let end = if text.starts_with('#') { 0 } else { end };
        return Ok(text[..end].trim_end().to_owned());
    };
    let mut value = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                return if is_comment(characters.as_str()) { Ok(value) } else { Err(AFTER) };
            }
            '\\' => match characters.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(escaped @ ('"' | '\\' | '$')) => value.push(escaped),
                Some(other) => value.extend(['\\', other]),
                None => break,
            },
            other => value.push(other),
        }
    }
    Err("the closing quote is missing")
}

fn is_comment(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}
