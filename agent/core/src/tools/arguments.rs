use serde_json::{Map, Value};

use super::OfferedTool;

/// Reads the arguments that a model wrote for `tool`; the error is written for the model.
pub fn validate(arguments_text: &str, tool: &OfferedTool) -> Result<Map<String, Value>, String> {
    let _ = tool;
    serde_json::from_str(arguments_text).map_err(|error| error.to_string())
}
