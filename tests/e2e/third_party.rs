//! Servers of others, installed by `.ci/servers` from their packages, plugged in by the entry that their own
//! documentation shows. `npx` and `uvx` of the tests start them at the pinned versions and without a network.

mod brave;
mod documents;
mod everything;
mod files;
mod playwright;
mod site;

use gaia_tests::installed::servers;
use serde_json::{Value, json};

use crate::gaia::{Desk, Ended};

/// A desk with one server in three forms: pasted into a JSON file (`pasted.toml` reads it), as a table of our own
/// (`own.toml`), and the JSON alone for more.
struct Plugged {
    desk: Desk,
}

impl Plugged {
    /// `entry` is what the documentation shows below `mcpServers`, with the paths of the test.
    fn new(name: &str, entry: &Value) -> Self {
        let desk = Desk::new().with_variable("PATH", &path());
        desk.write("mcp.json", &json!({ "mcpServers": { name: entry } }).to_string());
        desk.write("pasted.toml", "mcp_config = [\"mcp.json\"]\n");
        let table: toml::Table = serde_json::from_value(json!({ "mcp_servers": { name: entry } })).unwrap();
        desk.write("own.toml", &table.to_string());
        Self { desk }
    }

    /// The tools of the server by `gaia tools`, the same in both forms: bare names and descriptions.
    async fn tools(&self) -> Vec<String> {
        let mut lists = Vec::new();
        for config in ["pasted.toml", "own.toml"] {
            let ended = self.desk.gaia(&["tools", config, "--json"]).await;
            assert_eq!(ended.code, 0, "{ended:#?}");
            lists.push(serde_json::from_str::<Value>(&ended.stdout).unwrap());
        }
        assert_eq!(lists[0], lists[1]);
        let rows = lists[0].as_array().unwrap();
        rows.iter().map(|row| row["model_name"].as_str().unwrap_or("hidden").to_owned()).collect()
    }

    /// What `gaia call` prints as JSON.
    async fn call(&self, tool: &str, arguments: Value) -> Called {
        let arguments = arguments.to_string();
        let ended = self.desk.gaia(&["call", "pasted.toml", tool, &arguments, "--json"]).await;
        Called::of(ended)
    }
}

/// The parts of a result, in order.
#[derive(Debug)]
struct Called {
    texts: Vec<String>,
    /// Media type and decoded size.
    images: Vec<(String, usize)>,
    structured: Value,
    is_error: bool,
}

impl Called {
    fn of(ended: Ended) -> Self {
        assert!(ended.code == 0 || ended.code == 5, "{ended:#?}");
        let printed: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:#?}"));
        let parts = printed["content"].as_array().unwrap();
        let texts = parts.iter().filter_map(|part| part["text"].as_str()).map(str::to_owned).collect();
        let images = parts.iter().filter(|part| part["data"].is_string()).map(|part| {
            let data = part["data"].as_str().unwrap();
            (part["media_type"].as_str().unwrap().to_owned(), data.len() / 4 * 3)
        });
        let is_error = printed["is_error"].as_bool().unwrap();
        assert_eq!(is_error, ended.code == 5, "{ended:#?}");
        Self { texts, images: images.collect(), structured: printed["structured"].clone(), is_error }
    }

    fn text(&self) -> String {
        self.texts.join("\n")
    }
}

/// A PATH on which `npx` and `uvx` start what is installed.
fn path() -> String {
    format!("{}:{}", servers().join("bin").display(), std::env::var("PATH").unwrap_or_default())
}
