use std::collections::{BTreeMap, BTreeSet};

/// What every provider takes as a function name: `^[a-zA-Z0-9_-]{1,64}$`.
const NAME_CHARS: usize = 64;

/// A tool by its server and the server's own name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin<'a> {
    pub(super) server: &'a str,
    pub(super) tool: &'a str,
    /// What the config puts in front of the names of the server's tools.
    pub(super) prefix: &'a str,
}

impl Origin<'_> {
    fn canonical(self) -> String {
        format!("{}/{}", self.server, self.tool)
    }

    fn bare(self) -> String {
        format!("{}{}", self.prefix, self.tool)
    }
}

/// One name for each tool, all different, whatever the order of the list.
///
/// The bare name where it is unique, else `server__tool` for each of the clashing ones; what still clashes after
/// cutting and replacing gets a hash of its canonical name. The answer tool has first choice: no other tool can stand
/// in for it.
pub(super) fn model_names(tools: &[Origin<'_>], answer_tool: Option<&str>) -> Vec<String> {
    let is_answer = |tool: &Origin<'_>| answer_tool.is_some_and(|answer| answer == tool.canonical());
    let bare: Vec<String> = tools.iter().map(|tool| fit(&tool.bare(), *tool)).collect();
    let uses = count(&bare);
    let answer_name = tools.iter().zip(&bare).find(|(tool, _)| is_answer(tool)).map(|(_, name)| name.clone());

    let mut names: Vec<String> = tools
        .iter()
        .zip(bare)
        .map(|(tool, name)| match is_answer(tool) || uses[&name] == 1 {
            true => name,
            false => fit(&format!("{}__{}", tool.server, tool.bare()), *tool),
        })
        .collect();

    let uses = count(&names);
    let mut taken: BTreeSet<String> =
        names.iter().filter(|name| uses[*name] == 1).cloned().chain(answer_name).collect();
    for (tool, name) in tools.iter().zip(&mut names) {
        if uses[name] > 1 && !is_answer(tool) {
            let mut salt = tool.canonical();
            let mut candidate = with_hash(name, &salt);
            while !taken.insert(candidate.clone()) {
                salt.push('+');
                candidate = with_hash(name, &salt);
            }
            *name = candidate;
        }
    }
    names
}

fn count(names: &[String]) -> BTreeMap<String, usize> {
    names.iter().fold(BTreeMap::new(), |mut counts, name| {
        *counts.entry(name.clone()).or_default() += 1;
        counts
    })
}

/// The name in the allowed alphabet and length. A long name keeps its start and says by a hash which one it is.
fn fit(name: &str, tool: Origin<'_>) -> String {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let mut name: String =
        name.chars().map(|character| if allowed(character) { character } else { '_' }).collect();
    // Gemini: "Must start with a letter or an underscore".
    if name.starts_with(|first: char| !first.is_ascii_alphabetic() && first != '_') {
        name.insert(0, '_');
    }
    if name.len() > NAME_CHARS { with_hash(&name, &tool.canonical()) } else { name }
}

fn with_hash(name: &str, salt: &str) -> String {
    let suffix = format!("_{:08x}", fnv1a(salt.as_bytes()));
    format!("{}{suffix}", &name[..name.len().min(NAME_CHARS - suffix.len())])
}

/// FNV-1a, 32 bits: the same on every machine and in every version, which the standard library's hash is not.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(tools: &[(&str, &str)], answer_tool: Option<&str>) -> Vec<String> {
        let tools: Vec<_> = tools.iter().map(|&(server, tool)| Origin { server, tool, prefix: "" }).collect();
        model_names(&tools, answer_tool)
    }

    #[test]
    fn fnv1a_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }

    #[test]
    fn bare_where_unique_else_with_the_server() {
        assert_eq!(
            names(&[("a", "search"), ("b", "search"), ("b", "fetch")], None),
            ["a__search", "b__search", "fetch"]
        );
    }

    #[test]
    fn a_prefix_stands_in_front_and_can_clash_too() {
        let tool = |server, tool, prefix| Origin { server, tool, prefix };
        let found = model_names(&[tool("a", "search", "web_"), tool("b", "search", "")], None);
        assert_eq!(found, ["web_search", "search"]);
        let found = model_names(&[tool("a", "search", "web_"), tool("b", "web_search", "")], None);
        assert_eq!(found, ["a__web_search", "b__web_search"]);
    }

    #[test]
    fn the_answer_tool_keeps_its_name() {
        assert_eq!(
            names(&[("evil", "submit"), ("submit", "submit")], Some("submit/submit")),
            ["evil__submit", "submit"]
        );
        // Neither by a name that is written like another tool's, nor by one that becomes it.
        let found = names(&[("evil", "sub.mit"), ("submit", "sub_mit")], Some("submit/sub_mit"));
        assert_eq!(found, ["evil__sub_mit", "sub_mit"]);
        let found = names(&[("a", "b__x"), ("b", "x"), ("c", "x")], Some("a/b__x"));
        assert_eq!(found[0], "b__x");
        assert!(found[1].starts_with("b__x_"), "{found:?}");
    }

    #[test]
    fn a_name_starts_with_a_letter_or_an_underscore() {
        assert_eq!(names(&[("a", "3d_view"), ("a", "-x"), ("a", "_y")], None), ["_3d_view", "_-x", "_y"]);
    }

    #[test]
    fn long_and_strange_names_stay_apart() {
        let long = "x".repeat(100);
        let found = names(
            &[("s", &format!("{long}1")), ("s", &format!("{long}2")), ("s", "a.b"), ("s", "a b")],
            None,
        );
        assert_eq!(found[0].len(), NAME_CHARS);
        assert_ne!(found[0], found[1]);
        assert!(
            found[2].starts_with("s__a_b_") && found[3].starts_with("s__a_b_") && found[2] != found[3],
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn all_different_all_allowed_and_the_answer_tool_first(
            tools in proptest::collection::btree_set(("[ab_]{1,4}", "[ab_.é]{1,6}|[ab]{60,70}"), 1..20),
            answer in proptest::sample::Index::arbitrary(),
        ) {
            let tools: Vec<_> = tools.iter().map(|(server, tool)| Origin { server, tool, prefix: "" }).collect();
            let answer = tools[answer.index(tools.len())];
            let names = model_names(&tools, Some(&answer.canonical()));
            let distinct: BTreeSet<_> = names.iter().collect();
            prop_assert_eq!(distinct.len(), tools.len(), "{:?}", names);
            for (tool, name) in tools.iter().zip(&names) {
                prop_assert!((1..=NAME_CHARS).contains(&name.len()));
                prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'));
                if *tool == answer {
                    prop_assert_eq!(name, &fit(tool.tool, *tool));
                }
            }
        }
    }
}
