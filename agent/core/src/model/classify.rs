//! What a failed model call means: try again, compact, or give up, and with which words.

mod hints;
mod phrases;

use std::time::Duration;

use serde_json::Value;

use super::ModelError;
use super::service::HttpFailure;
use hints::{wait_in, window_in};

/// What comes after one failed attempt.
#[derive(Debug, Clone)]
pub(super) enum Verdict {
    Retry { reason: String, after: Option<Duration>, cause: Cause },
    GiveUp(ModelError),
}

/// Whose fault a failure is that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Too much was asked of the endpoint: by this run, or by everybody.
    Overload,
    /// The endpoint was not there to be asked.
    Absence,
    Fault,
}

/// A longer wait than this is no rate limit but a quota: all retries together wait about twice as long.
const QUOTA_WAIT: Duration = Duration::from_secs(600);

impl Verdict {
    pub(super) fn retry(reason: impl Into<String>) -> Self {
        Verdict::Retry { reason: reason.into(), after: None, cause: Cause::Fault }
    }
}

/// The status decides first and the body second: bodies come in every shape, a status does not.
pub(super) fn failure(failure: &HttpFailure) -> Verdict {
    match failure {
        HttpFailure::Unreachable(reason) => {
            Verdict::Retry { reason: reason.clone(), after: None, cause: Cause::Absence }
        }
        HttpFailure::Transport(reason) => Verdict::retry(reason.clone()),
        HttpFailure::Page { status, body } => Verdict::retry(format!(
            "a web page came in place of a reply (HTTP {status}; check `model.base_url`): {}",
            readable(body)
        )),
        HttpFailure::Status { status, retry_after, body } => {
            let error = ErrorText { wait: retry_after.or_else(|| wait_in(body)), ..ErrorText::of(body) };
            match error.verdict(*status) {
                Verdict::Retry { reason, after, cause } => {
                    Verdict::Retry { reason: format!("HTTP {status}: {reason}"), after, cause }
                }
                given_up => given_up,
            }
        }
    }
}

/// An error object that came with status 200: in the body, or as an event of the stream.
pub(super) fn error_in_reply(object: &Value) -> Verdict {
    let error = ErrorText { wait: wait_in(&object.to_string()), ..ErrorText::of_value(object) };
    // OpenRouter and vLLM put the status that the reply should have had into `code`; others have a word for it.
    let status = error.code.parse::<u16>().ok().filter(|code| (400..600).contains(code));
    error.verdict(status.or_else(|| error.status_of_words()).unwrap_or(500))
}

/// Characters of a provider's error text that are shown: their longest useful messages are about half of it.
const SHOWN_CHARACTERS: usize = 600;

struct ErrorText {
    message: String,
    /// Whatever stood in `code`, `type` and `status`, as text: OpenAI sends a string, vLLM a number.
    code: String,
    kind: String,
    /// When the provider wants to be asked again.
    wait: Option<Duration>,
    /// A web page in place of an error: not the provider's own, but of something in front of it.
    is_page: bool,
}

impl ErrorText {
    fn of(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of_value(&value),
            Err(_) => Self {
                message: readable(body),
                code: String::new(),
                kind: String::new(),
                wait: None,
                is_page: body.trim_start().starts_with('<'),
            },
        }
    }

    fn of_value(value: &Value) -> Self {
        // {"error": {…}}, {"error": "text"}, {"object": "error", "message": …}, [{"error": …}], {"errors": […]}
        let value = value.get(0).unwrap_or(value);
        let listed = value.get("errors").and_then(|errors| errors.get(0));
        let error = value.get("error").filter(|error| !error.is_null()).or(listed).unwrap_or(value);
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
        // OpenRouter puts the words of the provider behind it beside its own, which say nothing.
        let behind = error.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
        let message = if behind.is_empty() { message } else { format!("{message}: {behind}") };
        Self {
            message: readable(&message),
            code: text("code"),
            // Google's details say of which limit it speaks.
            kind: format!(
                "{} {} {}",
                text("type"),
                text("status"),
                error.get("details").map(Value::to_string).unwrap_or_default()
            ),
            wait: None,
            is_page: false,
        }
    }

    fn verdict(&self, status: u16) -> Verdict {
        let message = &self.message;
        // A request that is larger than what a minute may hold will not fit into the next minute either.
        let too_large = status == 429 && self.says(&phrases::TOO_LARGE_FOR_A_MINUTE);
        if too_large || (matches!(status, 400 | 413 | 422 | 500) && self.says(&phrases::OVERFLOW)) {
            return Verdict::GiveUp(ModelError::ContextOverflow {
                message: message.clone(),
                window_tokens: window_in(message),
            });
        }
        if matches!(status, 400 | 500) && self.says(&phrases::GARBLED) {
            return Verdict::GiveUp(ModelError::Garbled(message.clone()));
        }
        if (400..500).contains(&status) && self.says(&phrases::CONTENT_REFUSED) {
            return Verdict::GiveUp(ModelError::ContentRefused(format!(
                "the provider declined this content (HTTP {status}): {message}"
            )));
        }
        if (400..=500).contains(&status) && self.says_quota() {
            return Verdict::GiveUp(ModelError::Refused(format!(
                "the provider says the quota is used up (HTTP {status}): {message}; add credit or use another key"
            )));
        }
        match status {
            408 | 409 | 425 | 429 | 500..=599 => self.retry(status),
            401 => refused(status, message, "check the key in the variable that `model.api_key_env` names"),
            402 => refused(status, message, "the account has no credit"),
            // A guard in front of the provider looks at each request, and refuses some for what they say.
            403 if !self.is_page => refused(status, message, "the key may not use this model"),
            404 => refused(
                status,
                message,
                "check `model.name`, `model.api`, and that `model.base_url` ends where the path of the API is added",
            ),
            _ => Verdict::GiveUp(ModelError::Request(format!(
                "the provider rejected the request (HTTP {status}): {message}"
            ))),
        }
    }

    fn retry(&self, status: u16) -> Verdict {
        let overloaded = matches!(status, 429 | 503 | 529) || self.says(&phrases::OVERLOAD);
        if let Some(wait) = self.wait.filter(|wait| overloaded && *wait > QUOTA_WAIT) {
            return Verdict::GiveUp(ModelError::Refused(format!(
                "the provider wants to be left alone for {} minutes (HTTP {status}): {}; go on then, or use another key",
                wait.as_secs().div_ceil(60),
                self.message
            )));
        }
        Verdict::Retry {
            reason: self.message.clone(),
            after: self.wait,
            cause: if overloaded { Cause::Overload } else { Cause::Fault },
        }
    }

    fn says_quota(&self) -> bool {
        if self.says(&phrases::QUOTA) {
            return true;
        }
        // Gemini says the same of a limit a minute, then with the time after which to try again, and of one a day.
        let google = self.says(&["resource_exhausted"]);
        self.says(&phrases::QUOTA_OR_LIMIT) && (!google || self.says(&phrases::DAILY))
    }

    fn status_of_words(&self) -> Option<u16> {
        const WORDS: [(&str, u16); 12] = [
            ("authentication_error", 401),
            ("invalid_api_key", 401),
            ("insufficient_quota", 429),
            ("permission_error", 403),
            ("not_found_error", 404),
            ("rate_limit", 429),
            ("too_many_requests", 429),
            ("overloaded_error", 529),
            ("invalid_request", 400),
            ("invalid_prompt", 400),
            ("badrequesterror", 400),
            ("bad_request", 400),
        ];
        let label = format!("{} {}", self.code, self.kind).to_lowercase();
        WORDS.iter().find(|(word, _)| label.contains(word)).map(|(_, status)| *status)
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
                "overflow 200000",
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
