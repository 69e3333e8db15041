//! What is known of common models without asking anyone.

use globset::GlobBuilder;
use serde::Deserialize;

use crate::settings::Price;

/// Windows and prices by the name of a model: a file in the program, and in front of it files of the user's.
#[derive(Debug, Clone)]
pub struct Catalog {
    entries: Vec<Entry>,
}

/// What a catalog says of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Known {
    pub window_tokens: Option<u64>,
    /// Only when the endpoint is the one that the price is for.
    pub price: Option<Price>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    model: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(rename = "match")]
    pattern: String,
    window: Option<u64>,
    price: Option<ListPrice>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListPrice {
    /// Absent: at every endpoint, as a user who writes a price means it.
    host: Option<String>,
    input: f64,
    cached: Option<f64>,
    output: f64,
    reasoning: Option<f64>,
}

const BUILT_IN: &str = include_str!("catalog.toml");

impl Catalog {
    /// The program's own.
    ///
    /// # Errors
    /// Never: a test reads the file.
    pub fn built_in() -> Result<Self, String> {
        Ok(Self { entries: read(BUILT_IN)? })
    }

    /// With the entries of a file in front. The error says what is wrong with the file.
    pub fn with(mut self, file: &str) -> Result<Self, String> {
        let mut entries = read(file)?;
        entries.append(&mut self.entries);
        Ok(Self { entries })
    }

    /// `model` as it is asked for, `base_url` where. Window and price may come from different entries.
    pub fn find(&self, model: &str, base_url: &str) -> Known {
        let name = model.rsplit('/').next().unwrap_or(model).to_lowercase();
        let host = host_of(base_url);
        let matching = || self.entries.iter().filter(|entry| entry.matches(&name));
        let price = matching().filter_map(|entry| entry.price.as_ref());
        let mut here = price.filter(|price| price.host.as_deref().is_none_or(|wanted| wanted == host));
        Known {
            window_tokens: matching().find_map(|entry| entry.window),
            price: here.next().map(|price| Price {
                input: price.input,
                cached: price.cached.unwrap_or(price.input),
                output: price.output,
                reasoning: price.reasoning.unwrap_or(price.output),
            }),
        }
    }
}

impl Entry {
    fn matches(&self, name: &str) -> bool {
        GlobBuilder::new(&self.pattern).build().is_ok_and(|glob| glob.compile_matcher().is_match(name))
    }
}

fn read(text: &str) -> Result<Vec<Entry>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    for entry in &file.model {
        GlobBuilder::new(&entry.pattern).build().map_err(|error| format!("`match`: {error}"))?;
    }
    Ok(file.model)
}

pub(super) fn host_of(base_url: &str) -> &str {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(model: &str) -> Option<u64> {
        Catalog::built_in().unwrap().find(model, "http://127.0.0.1:8080/v1").window_tokens
    }

    #[test]
    fn names_lead_to_their_windows() {
        for (model, expected) in [
            ("gpt-4o-2024-08-06", Some(128_000)),
            ("openai/gpt-5.1", Some(400_000)),
            ("gpt-5-mini-2025-08-07", Some(400_000)),
            ("Qwen/Qwen2.5-7B-Instruct", Some(32_768)),
            ("meta-llama/Llama-3.3-70B-Instruct", Some(131_072)),
            ("claude-sonnet-5-5", Some(1_000_000)),
            ("scripted", None),
            ("my-gpt-4o", None),
        ] {
            assert_eq!(window(model), expected, "{model}");
        }
    }

    #[test]
    fn a_price_holds_at_its_own_host_only() {
        let catalog = Catalog::built_in().unwrap();
        let price = |url: &str| catalog.find("gpt-4o-mini", url).price.map(|price| price.output);
        assert_eq!(price("https://api.openai.com/v1"), Some(0.6));
        assert_eq!(price("https://api.openai.com.evil.invalid/v1"), None);
        assert_eq!(price("http://127.0.0.1:8080/v1"), None);
        // A newer model is not billed like an older one of a similar name.
        let of =
            |model: &str| catalog.find(model, "https://api.openai.com/v1").price.map(|price| price.input);
        assert_eq!(
            (of("gpt-5.4-mini"), of("gpt-5-mini"), of("gpt-5.9-mini")),
            (Some(0.75), Some(0.25), None)
        );
    }

    #[test]
    fn entries_of_the_user_come_first_and_fill_in() {
        let mine = "[[model]]\nmatch = \"gpt-4o*\"\nprice = { input = 1, output = 2, reasoning = 3 }\n";
        let known = Catalog::built_in().unwrap().with(mine).unwrap().find("gpt-4o", "http://localhost/v1");
        assert_eq!(known.window_tokens, Some(128_000));
        assert_eq!(known.price, Some(Price { input: 1.0, cached: 1.0, output: 2.0, reasoning: 3.0 }));
        let error = Catalog::built_in().unwrap().with("[[model]]\nmach = \"x\"").unwrap_err();
        assert!(error.contains("mach"), "{error}");
    }
}
