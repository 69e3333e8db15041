//! What a failed model call means: try again, compact, or give up, and with which words.

use std::time::Duration;

use serde_json::Value;

use super::ModelError;
use super::service::HttpFailure;

/// What comes after one failed attempt.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    Retry { reason: String, after: Option<Duration> },
    GiveUp(ModelError),
}

impl Verdict {
    pub(super) fn retry(reason: impl Into<String>) -> Self {
        Verdict::Retry { reason: reason.into(), after: None }
    }
}

/// The status decides first and the body second: bodies come in every shape, a status does not.
pub(super) fn failure(failure: &HttpFailure) -> Verdict {
    match failure {
        HttpFailure::Transport(reason) => Verdict::retry(reason.clone()),
        HttpFailure::Page { status, body } => Verdict::retry(format!(
            "a web page came in place of a reply (HTTP {status}; check `model.base_url`): {}",
            readable(body)
        )),
        HttpFailure::Status { status, retry_after, body } => {
            let error = ErrorText::of(body);
            match error.verdict(*status) {
                Verdict::Retry { reason, .. } => {
                    Verdict::Retry { reason: format!("HTTP {status}: {reason}"), after: *retry_after }
                }
                given_up => given_up,
            }
        }
    }
}

/// An error object that came with status 200: in the body, or as an event of the stream.
pub(super) fn error_in_reply(object: &Value) -> Verdict {
    let error = ErrorText::of_value(object);
    // OpenRouter and vLLM put the status that the reply should have had into `code`.
    let status = error.code.parse::<u16>().ok().filter(|code| (400..600).contains(code)).unwrap_or(500);
    error.verdict(status)
}

/// Characters of a provider's error text that are shown: their longest useful messages are about half of it.
const SHOWN_CHARACTERS: usize = 600;

struct ErrorText {
    message: String,
    /// Whatever stood in `code` or `type`, as text: OpenAI sends a string, vLLM a number.
    code: String,
    kind: String,
}

impl ErrorText {
    fn of(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of_value(&value),
            Err(_) => Self { message: readable(body), code: String::new(), kind: String::new() },
        }
    }

    fn of_value(value: &Value) -> Self {
        // {"error": {…}}, {"error": "text"}, {"object": "error", "message": …}, [{"error": …}]
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let text = |key: &str| match error.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = match error {
            Value::String(text) => text.clone(),
            _ => [text("message"), text("detail"), text("msg")]
                .into_iter()
                .find(|text| !text.is_empty())
                .unwrap_or_else(|| error.to_string()),
        };
        Self { message: readable(&message), code: text("code"), kind: text("type") }
    }

    fn verdict(&self, status: u16) -> Verdict {
        let message = &self.message;
        if matches!(status, 400 | 413 | 422 | 500) && self.says_overflow() {
            return Verdict::GiveUp(ModelError::ContextOverflow {
                message: message.clone(),
                window_tokens: window_in(message),
            });
        }
        if matches!(status, 400 | 500) && self.says_garbled() {
            return Verdict::GiveUp(ModelError::Garbled(message.clone()));
        }
        if (400..500).contains(&status) && self.says_content_refused() {
            return Verdict::GiveUp(ModelError::ContentRefused(format!(
                "the provider declined this content (HTTP {status}): {message}"
            )));
        }
        match status {
            429 if self.says_quota() => Verdict::GiveUp(ModelError::Refused(format!(
                "the provider says the quota is used up (HTTP 429): {message}; add credit or use another key, then `gaia resume`"
            ))),
            408 | 409 | 425 | 429 | 500..=599 => Verdict::retry(message.clone()),
            401 => refused(status, message, "check the key in the variable that `model.api_key_env` names"),
            402 => refused(status, message, "the account has no credit"),
            403 => refused(status, message, "the key may not use this model"),
            404 => refused(
                status,
                message,
                "check `model.name` and that `model.base_url` ends where `/chat/completions` is added",
            ),
            _ => Verdict::GiveUp(ModelError::Request(format!(
                "the provider rejected the request (HTTP {status}): {message}"
            ))),
        }
    }

    fn says_overflow(&self) -> bool {
        const PHRASES: [&str; 14] = [
            "context_length_exceeded",
            "exceed_context_size",
            "maximum context length",
            "context length exceeded",
            "context window",
            "context size",
            "prompt is too long",
            "input is too long",
            "too many tokens",
            "reduce the length of",
            "range of input length",
            "exceeds the maximum number of tokens",
            "input token count",
            "exceeds the model's max",
        ];
        self.says(&PHRASES)
    }

    /// llama.cpp; Groq and its kin; Ollama.
    fn says_garbled(&self) -> bool {
        const PHRASES: [&str; 4] = [
            "model produced output that does not match",
            "tool_use_failed",
            "failed to call a function",
            "error parsing tool call",
        ];
        self.says(&PHRASES)
    }

    fn says_content_refused(&self) -> bool {
        const PHRASES: [&str; 7] = [
            "content_filter",
            "content_policy_violation",
            "content management policy",
            "data_inspection_failed",
            "datainspectionfailed",
            "inappropriate content",
            "flagged by moderation",
        ];
        self.says(&PHRASES)
    }

    fn says_quota(&self) -> bool {
        const PHRASES: [&str; 5] = [
            "insufficient_quota",
            "exceeded your current quota",
            "insufficient balance",
            "billing_hard_limit",
            "arrearage",
        ];
        self.says(&PHRASES)
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let all = format!("{} {} {}", self.code, self.kind, self.message).to_lowercase();
        phrases.iter().any(|phrase| all.contains(phrase))
    }
}

fn refused(status: u16, message: &str, way_out: &str) -> Verdict {
    Verdict::GiveUp(ModelError::Refused(format!(
        "the provider refused (HTTP {status}): {message}; {way_out}"
    )))
}

/// One line of bounded length, markup of an HTML page left out.
fn readable(text: &str) -> String {
    let mut inside_tag = false;
    let plain: String = if text.trim_start().starts_with('<') {
        text.chars()
            .filter_map(|character| match character {
                '<' => {
                    inside_tag = true;
                    Some(' ')
                }
                '>' => {
                    inside_tag = false;
                    None
                }
                _ if inside_tag => None,
                _ => Some(character),
            })
            .collect()
    } else {
        text.to_owned()
    };
    let mut line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(SHOWN_CHARACTERS) {
        line.truncate(cut);
        line.push('…');
    }
    if line.is_empty() { "no text".to_owned() } else { line }
}

/// The window in tokens that an overflow message names: the first number behind words that announce it.
fn window_in(message: &str) -> Option<u64> {
    const ANNOUNCEMENTS: [&str; 6] = [
        "maximum context length is",
        "context size (",
        "context size of",
        "context window of",
        "n_ctx",
        "should be [1,",
    ];
    let lower = message.to_lowercase();
    ANNOUNCEMENTS.iter().find_map(|words| {
        let rest = &lower[lower.find(words)? + words.len()..];
        let start = rest.find(|character: char| character.is_ascii_digit())?;
        let digits: String = rest[start..]
            .chars()
            .take_while(|character| character.is_ascii_digit() || *character == ',')
            .filter(char::is_ascii_digit)
            .collect();
        digits.parse().ok().filter(|tokens| *tokens >= 256)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, body: &str) -> Verdict {
        failure(&HttpFailure::Status { status, retry_after: None, body: body.to_owned() })
    }

    #[test]
    fn each_status_and_body_leads_to_its_decision() {
        // What providers send, by their documentation and public bug reports.
        for (code, body, expected) in [
            (429, r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#, "retry"),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
                "refused",
            ),
            (429, "<html><body>Too many</body></html>", "retry"),
            (500, "", "retry"),
            (502, "<html><h1>Bad gateway</h1></html>", "retry"),
            (503, r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#, "retry"),
            (408, "", "retry"),
            (409, r#"{"error":"conflict"}"#, "retry"),
            (401, r#"{"error":{"message":"Incorrect API key"}}"#, "refused"),
            (402, r#"{"error":{"message":"Insufficient credits","code":402}}"#, "refused"),
            (403, "{}", "refused"),
            (404, r#"{"object":"error","message":"The model `x` does not exist.","code":404}"#, "refused"),
            (
                400,
                r#"{"error":{"message":"Invalid schema for function","type":"invalid_request_error"}}"#,
                "request",
            ),
            (422, r#"{"detail":"bad field"}"#, "request"),
            (
                400,
                r#"{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 8,192 tokens."}}"#,
                "overflow 8192",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_ctx":2048}}"#,
                "overflow 2048",
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000","code":400}"#,
                "overflow 4096",
            ),
            (
                400,
                r#"{"error":{"message":"Range of input length should be [1, 129024]"}}"#,
                "overflow 129024",
            ),
            (
                413,
                r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                "overflow",
            ),
            (
                400,
                r#"{"error":{"code":"data_inspection_failed","message":"Output data may contain inappropriate content."}}"#,
                "content",
            ),
            (400, r#"{"error":{"code":"content_filter","message":"The response was filtered"}}"#, "content"),
            // llama.cpp's server, both builds.
            (
                500,
                r#"{"error":{"code":500,"message":"The model produced output that does not match the expected peg-native format","type":"server_error"}}"#,
                "garbled",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"request (3631 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":3631,"n_ctx":2048}}"#,
                "overflow 2048",
            ),
            (
                401,
                r#"{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}"#,
                "refused",
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"Unable to generate parser for this template","type":"invalid_request_error"}}"#,
                "request",
            ),
            // llama-cpp-python: an empty message, a plain text, OpenAI's wording of an overflow.
            (
                500,
                r#"{"error":{"message":"","type":"internal_server_error","param":null,"code":null}}"#,
                "retry",
            ),
            (500, "Internal Server Error", "retry"),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 2048 tokens, however you requested 3631 tokens","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                "overflow 2048",
            ),
            // Groq, Ollama.
            (
                400,
                r#"{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=bash>"}}"#,
                "garbled",
            ),
            (
                500,
                r#"{"error":{"message":"error parsing tool call: raw='{\"a\"', err=unexpected end of JSON input","type":"api_error"}}"#,
                "garbled",
            ),
        ] {
            let seen = match status(code, body) {
                Verdict::Retry { .. } => "retry".to_owned(),
                Verdict::GiveUp(ModelError::Refused(_)) => "refused".to_owned(),
                Verdict::GiveUp(ModelError::Request(_)) => "request".to_owned(),
                Verdict::GiveUp(ModelError::ContentRefused(_)) => "content".to_owned(),
                Verdict::GiveUp(ModelError::Garbled(_)) => "garbled".to_owned(),
                Verdict::GiveUp(ModelError::ContextOverflow { window_tokens, .. }) => {
                    window_tokens.map_or("overflow".to_owned(), |tokens| format!("overflow {tokens}"))
                }
                Verdict::GiveUp(other) => format!("{other:?}"),
            };
            assert_eq!(seen, expected, "{code} {body}");
        }
    }

    #[test]
    fn an_error_inside_a_reply_is_judged_by_the_status_it_names() {
        let refused = serde_json::json!({"error": {"code": 401, "message": "bad key"}});
        assert!(matches!(error_in_reply(&refused), Verdict::GiveUp(ModelError::Refused(_))));
        let overloaded = serde_json::json!({"error": {"type": "overloaded", "message": "busy"}});
        assert!(matches!(error_in_reply(&overloaded), Verdict::Retry { .. }));
    }

    #[test]
    fn a_page_is_shown_as_its_words() {
        let Verdict::Retry { reason, .. } =
            status(502, "<html><head></head><body><h1>Bad\n gateway</h1></body></html>")
        else {
            panic!("a bad gateway is retried");
        };
        assert_eq!(reason, "HTTP 502: Bad gateway");
    }
}
