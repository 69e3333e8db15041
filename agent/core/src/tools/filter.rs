use globset::{Glob, GlobMatcher};

use super::{ServerSpec, ServerTool};

/// Names shown for an entry that matches nothing.
const SUGGESTIONS: usize = 3;

/// Decides by allow-list, then deny-list, which tools of a server are offered.
#[derive(Debug)]
pub(super) struct Filter {
    enabled: Option<Vec<Entry>>,
    disabled: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    text: String,
    matcher: GlobMatcher,
}

impl Filter {
    /// Fails when an entry is no glob; the error is a clause.
    pub(super) fn new(spec: &ServerSpec) -> Result<Self, String> {
        let entries = |key: &str, list: &[String]| {
            list.iter()
                .map(|text| {
                    let glob = Glob::new(text)
                        .map_err(|error| format!("`{text}` in its `{key}` is no glob: {error}"))?;
                    Ok(Entry { text: text.clone(), matcher: glob.compile_matcher() })
                })
                .collect::<Result<Vec<_>, String>>()
        };
        Ok(Self {
            enabled: spec.enabled_tools.as_deref().map(|list| entries("enabled_tools", list)).transpose()?,
            disabled: entries("disabled_tools", &spec.disabled_tools)?,
        })
    }

    /// An entry that matches nothing is a mistake that would change a benchmark without a word.
    pub(super) fn check(&self, tools: &[ServerTool]) -> Result<(), String> {
        let lists = [
            ("enabled_tools", self.enabled.as_deref().unwrap_or_default()),
            ("disabled_tools", &self.disabled),
        ];
        for (key, entries) in lists {
            for entry in entries {
                if !tools.iter().any(|tool| entry.matcher.is_match(&tool.name)) {
                    return Err(format!(
                        "`{}` in its `{key}` matches none of its tools; {}",
                        entry.text,
                        nearest(&entry.text, tools)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Why a tool is not offered.
    pub(super) fn hides(&self, name: &str) -> Option<String> {
        let hit = |entries: &[Entry]| {
            entries.iter().find(|entry| entry.matcher.is_match(name)).map(|entry| entry.text.clone())
        };
        match &self.enabled {
            Some(enabled) if hit(enabled).is_none() => return Some("not in `enabled_tools`".to_owned()),
            _ => {}
        }
        hit(&self.disabled).map(|entry| match entry == name {
            true => "in `disabled_tools`".to_owned(),
            false => format!("in `disabled_tools` (`{entry}`)"),
        })
    }
}

fn nearest(wanted: &str, tools: &[ServerTool]) -> String {
    if tools.is_empty() {
        return "it has no tools".to_owned();
    }
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_by(|a, b| strsim::jaro_winkler(wanted, b).total_cmp(&strsim::jaro_winkler(wanted, a)));
    let shown: Vec<String> = names.iter().take(SUGGESTIONS).map(|name| format!("`{name}`")).collect();
    match names.len() {
        count if count <= SUGGESTIONS => format!("it has {}", shown.join(", ")),
        count => format!("the nearest of its {count} are {}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::tools::{CallOrder, Protocol, Redactor, Scope, ToolAnnotations, TransportSpec};

    fn filter(enabled: Option<&[&str]>, disabled: &[&str]) -> Result<Filter, String> {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Filter::new(&ServerSpec {
            name: "x".to_owned(),
            transport: TransportSpec::Stdio {
                command: String::new(),
                args: vec![],
                env: BTreeMap::new(),
                cwd: None,
            },
            scope: Scope::Sample,
            enabled_tools: enabled.map(owned),
            disabled_tools: owned(disabled),
            startup_timeout: Duration::ZERO,
            tool_timeout: Duration::ZERO,
            required: true,
            protocol: Protocol::Auto,
            call_order: CallOrder::AsDeclared,
            max_concurrent_calls: None,
            redactor: Redactor::default(),
            prefix: None,
        })
    }

    fn tools(names: &[&str]) -> Vec<ServerTool> {
        names
            .iter()
            .map(|&name| ServerTool {
                name: name.to_owned(),
                title: None,
                description: String::new(),
                input_schema: serde_json::json!({}),
                annotations: ToolAnnotations::default(),
            })
            .collect()
    }

    #[test]
    fn allow_then_deny() {
        let check = |enabled: Option<&[&str]>, disabled: &[&str], name: &str, expected: Option<&str>| {
            assert_eq!(filter(enabled, disabled).unwrap().hides(name).as_deref(), expected, "{name}");
        };
        check(None, &[], "read_file", None);
        check(Some(&["read_*"]), &[], "read_file", None);
        check(Some(&["read_*"]), &[], "write_file", Some("not in `enabled_tools`"));
        check(Some(&[]), &[], "read_file", Some("not in `enabled_tools`"));
        check(Some(&["*"]), &["write_*"], "write_file", Some("in `disabled_tools` (`write_*`)"));
        check(None, &["write_file"], "write_file", Some("in `disabled_tools`"));
        check(None, &["{read,write}_file"], "move_file", None);
    }

    #[test]
    fn an_entry_that_matches_nothing_names_the_nearest() {
        let tools = tools(&["read_file", "write_file", "move_file", "list_directory"]);
        let check = |enabled: Option<&[&str]>, disabled: &[&str], expected: &str| {
            let error = filter(enabled, disabled).unwrap().check(&tools).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check(
            Some(&["read_file", "raed_file"]),
            &[],
            "`raed_file` in its `enabled_tools` matches none of its tools; the nearest of its 4 are `read_file`",
        );
        check(None, &["delete_*"], "`delete_*` in its `disabled_tools`");
        assert_eq!(filter(Some(&["*_file"]), &["list_directory"]).unwrap().check(&tools), Ok(()));
        assert!(filter(Some(&["a[b"]), &[]).unwrap_err().contains("`a[b` in its `enabled_tools` is no glob"));
    }
}
