//! What a provider counted, under the names that providers have for it.

use serde_json::Value;

use crate::outcome::Usage;

/// Reads the `usage` of either API. What is absent, negative or no number counts as nothing.
pub(super) fn read_usage(usage: &Value) -> Usage {
    let count = |pointers: &[&str]| {
        pointers.iter().find_map(|pointer| usage.pointer(pointer).and_then(number)).unwrap_or(0)
    };
    let input_tokens = count(&["/prompt_tokens", "/input_tokens"]);
    let mut output_tokens = count(&["/completion_tokens", "/output_tokens"]);
    let mut reasoning_tokens = count(&[
        "/completion_tokens_details/reasoning_tokens",
        "/output_tokens_details/reasoning_tokens",
        "/reasoning_tokens",
    ]);
    // xAI and Gemini leave thoughts out of the output but not out of the total, nor out of the bill.
    let unnamed = count(&["/total_tokens"]).saturating_sub(input_tokens + output_tokens);
    if unnamed > 0 {
        output_tokens += unnamed;
        reasoning_tokens = reasoning_tokens.max(unnamed);
    }
    let cached_tokens = count(&[
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        // DeepSeek; Moonshot; LiteLLM in front of Anthropic.
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
        "/cache_read_input_tokens",
    ]);
    Usage {
        input_tokens,
        output_tokens,
        cached_tokens: cached_tokens.min(input_tokens),
        reasoning_tokens: reasoning_tokens.min(output_tokens),
    }
}

/// Some servers count in floating point.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_under_every_name_and_never_flatter() {
        let usage = |input, output, cached, reasoning| Usage {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: cached,
            reasoning_tokens: reasoning,
        };
        for (value, expected) in [
            (json!({"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}), usage(5, 7, 0, 0)),
            (json!({"prompt_tokens": 5.0, "completion_tokens": -7}), usage(5, 0, 0, 0)),
            (
                json!({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 8},
                       "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 13}),
                usage(9, 4, 8, 3),
            ),
            (
                json!({"prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}),
                usage(5, 1, 4, 0),
            ),
            (json!({"prompt_tokens": 5, "completion_tokens": 1, "cached_tokens": 400}), usage(5, 1, 5, 0)),
            (
                json!({"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 26,
                       "completion_tokens_details": {"reasoning_tokens": 20}}),
                usage(5, 21, 0, 20),
            ),
            (json!({"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 26}), usage(5, 21, 0, 20)),
            (json!({}), usage(0, 0, 0, 0)),
        ] {
            assert_eq!(read_usage(&value), expected, "{value}");
        }
    }
}
