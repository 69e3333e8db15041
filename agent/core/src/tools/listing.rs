use std::collections::BTreeSet;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::service::{Peer, ServiceError};
use serde_json::Value;

use super::{HiddenTool, ServerTool, ToolAnnotations};

/// Pages of one list; the most that is known of a real server is four.
const LIST_PAGES: usize = 100;

/// Tools of one server; every model request carries those that are offered, and providers stop at 128.
const LIST_TOOLS: usize = 1_000;

/// Everything a server says that it has.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) tools: Vec<ServerTool>,
    /// Entries that no model can be offered.
    pub(super) unusable: Vec<Unusable>,
}

#[derive(Debug, Clone)]
pub(super) struct Unusable {
    pub(super) tool: String,
    pub(super) reason: String,
}

impl Unusable {
    pub(super) fn of(&self, server: &str) -> HiddenTool {
        HiddenTool { server: server.to_owned(), tool: self.tool.clone(), reason: self.reason.clone() }
    }
}

/// Reads all pages. The error is a clause: what the server did instead.
pub(super) async fn list_tools(peer: &Peer<RoleClient>) -> Result<Listing, String> {
    let mut listing = Listing::default();
    let mut names = BTreeSet::new();
    let mut cursors = BTreeSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..LIST_PAGES {
        let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        // Not through rmcp's `list_tools`: its cache may answer with a stale list.
        let request = ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params,
            extensions: Default::default(),
        });
        let result = match peer.send_request(request).await {
            Ok(result) => result,
            // A server that only has resources or prompts.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                return Ok(listing);
            }
            Err(error) => return Err(format!("failed to list its tools: {error}")),
        };
        let (entries, next) = page(result)?;
        for entry in entries {
            match entry {
                Ok(tool) if !names.insert(tool.name.clone()) => listing.unusable.push(Unusable {
                    tool: tool.name,
                    reason: "listed twice by its server; the first one counts".to_owned(),
                }),
                Ok(tool) => listing.tools.push(tool),
                Err(unusable) => listing.unusable.push(unusable),
            }
        }
        if listing.tools.len() + listing.unusable.len() > LIST_TOOLS {
            return Err(format!("listed more than {LIST_TOOLS} tools"));
        }
        match next {
            // Some servers send an empty cursor on the last page.
            None => return Ok(listing),
            Some(next) if next.is_empty() => return Ok(listing),
            Some(next) => {
                if !cursors.insert(next.clone()) {
                    return Err(format!("listed its tools in a circle: the cursor `{next}` came twice"));
                }
                cursor = Some(next);
            }
        }
    }
    Err(format!("listed its tools on more than {LIST_PAGES} pages"))
}

type Entry = Result<ServerTool, Unusable>;

fn page(result: ServerResult) -> Result<(Vec<Entry>, Option<String>), String> {
    // One bad entry makes the whole page unreadable for rmcp, so pages are read as plain JSON. The other variants
    // are what its untagged enum took such a page for.
    let mut value = match result {
        ServerResult::CustomResult(custom) => custom.0,
        result => {
            serde_json::to_value(result).map_err(|error| format!("failed to list its tools: {error}"))?
        }
    };
    let next = value.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    match value.get_mut("tools").map(Value::take) {
        Some(Value::Array(entries)) => Ok((entries.into_iter().map(entry).collect(), next)),
        _ => Err("answered `tools/list` with something that is no list of tools".to_owned()),
    }
}

fn entry(mut value: Value) -> Entry {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text(&value, "name").unwrap_or_default();
    let unusable = |reason: &str| Unusable { tool: name.clone(), reason: reason.to_owned() };
    if name.trim().is_empty() {
        return Err(unusable("it has no name"));
    }
    let input_schema = value.get_mut("inputSchema").map(Value::take).unwrap_or_default();
    if !input_schema.is_object() {
        return Err(unusable("its input schema is not a JSON object"));
    }
    let hint = |key: &str| {
        value.get("annotations").and_then(|annotations| annotations.get(key)).and_then(Value::as_bool)
    };
    Ok(ServerTool {
        title: text(&value, "title"),
        description: text(&value, "description").unwrap_or_default(),
        annotations: ToolAnnotations {
            read_only: hint("readOnlyHint").unwrap_or(false),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        name,
        input_schema,
    })
}
