use serde_json::{Map, Value, json};

use super::{ServerTool, ToolAnnotations};

/// The tool of the host's own that every server with resources gets: results name resources by links, and a model
/// can only call tools.
pub(super) const READ_RESOURCE: &str = "read_resource";

/// `None` when the server has a tool of that name itself, which then does the work.
pub(super) fn read_resource_tool(server: &str, tools: &[ServerTool]) -> Option<ServerTool> {
    if tools.iter().any(|tool| tool.name == READ_RESOURCE) {
        return None;
    }
    Some(ServerTool {
        name: READ_RESOURCE.to_owned(),
        title: None,
        description: format!(
            "Reads a resource of the server `{server}` by its URI, such as the one that a result links to."
        ),
        input_schema: json!({
            "type": "object",
            "properties": { "uri": { "type": "string", "description": "URI of the resource, as it was given" } },
            "required": ["uri"],
        }),
        annotations: ToolAnnotations { read_only: true, ..ToolAnnotations::default() },
    })
}

pub(super) fn uri(arguments: &Map<String, Value>) -> &str {
    arguments.get("uri").and_then(Value::as_str).unwrap_or_default()
}
