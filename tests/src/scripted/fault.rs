use std::str::FromStr;

use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

use super::dice::Dice;
use super::script::Turn;

/// A way to misbehave, each seen on a real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// 429 with Retry-After in whole seconds.
    #[serde(rename = "429")]
    RateLimited,
    /// 429 with Retry-After in fractions of a second, which no RFC allows and servers send.
    #[serde(rename = "429_fraction")]
    RateLimitedFraction,
    /// 429 with Retry-After as an HTTP date.
    #[serde(rename = "429_date")]
    RateLimitedDate,
    /// 429 from a proxy: HTML, no Retry-After.
    #[serde(rename = "429_html")]
    RateLimitedHtml,
    #[serde(rename = "500")]
    ServerError,
    /// 502 with a proxy's HTML page.
    Html,
    #[serde(rename = "503")]
    Unavailable,
    /// 503 whose error has a number as its code, as llama.cpp sends while it loads a model.
    NumericCode,
    /// 401: key refused.
    #[serde(rename = "401")]
    Unauthorized,
    /// 402: no credit.
    #[serde(rename = "402")]
    PaymentRequired,
    /// 429 that no wait helps against: the quota is used up.
    QuotaGone,
    /// 404: no such model.
    #[serde(rename = "404")]
    ModelNotFound,
    /// 400: the conversation does not fit; the wording is one of several vendors'.
    Overflow,
    /// 400: content refused by a filter.
    RefusedContent,
    /// Connection reset before any byte.
    Reset,
    /// Connection lost in the middle of the body.
    Cut,
    /// Headers (of a stream), then no byte and no end.
    Silent,
    /// The good reply, slowly.
    Slow,
    /// An error object inside a stream that began with 200; a 200 that is an error without streaming.
    ErrorEvent,
    /// The good reply without `[DONE]` at its end.
    NoDone,
    /// A stream that ends in order, without finish reason and `[DONE]`, in the middle of the reply.
    NoFinish,
    /// A reply with no choices.
    Empty,
    /// 200 and no body at all.
    EmptyBody,
    /// A tool call whose arguments are cut JSON. The turn is said again, whole, once the call has been answered.
    BadArguments,
}

/// Share of the requests that meet a fault: `429=0.05`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRate {
    pub fault: Fault,
    /// 0..1
    pub rate: f64,
}

impl Fault {
    /// The name in scripts, options and statistics.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(name)) => name,
            _ => format!("{self:?}"),
        }
    }

    /// Whether the client gets the scripted turn in spite of it.
    pub(crate) fn delivers(self) -> bool {
        matches!(self, Self::Slow | Self::NoDone)
    }

    /// Whether it can be played on this turn.
    pub(crate) fn fits(self, turn: &Turn) -> bool {
        self != Self::BadArguments || !turn.calls.is_empty()
    }
}

impl FromStr for FaultRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rate) = text.split_once('=').ok_or("expected KIND=RATE, such as `429=0.05`")?;
        let fault = serde_json::from_value(Value::from(name)).map_err(|error| error.to_string())?;
        let rate = rate.parse().map_err(|_| format!("`{rate}` is not a number"))?;
        if !(0.0..=1.0).contains(&rate) {
            return Err(format!("rate {rate} is not between 0 and 1"));
        }
        Ok(Self { fault, rate })
    }
}

/// Draws a fault by the rates, which share one draw: their sum is the share of requests that fail.
pub(crate) fn draw(rates: &[FaultRate], dice: &mut Dice) -> Option<Fault> {
    let mut left = dice.fraction();
    for FaultRate { fault, rate } in rates {
        if left < *rate {
            return Some(*fault);
        }
        left -= rate;
    }
    None
}

/// A whole answer that takes the place of a reply.
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<HeaderValue>,
    pub(crate) body: RefusalBody,
}

pub(crate) enum RefusalBody {
    Json(Value),
    Html(String),
}

impl Refusal {
    pub(crate) fn json(status: StatusCode, body: Value) -> Self {
        Self { status, retry_after: None, body: RefusalBody::Json(body) }
    }

    fn after(mut self, wait: String) -> Self {
        self.retry_after = HeaderValue::try_from(wait).ok();
        self
    }

    pub(crate) fn into_response(self) -> axum::response::Response {
        use axum::response::IntoResponse;
        let mut response = match self.body {
            RefusalBody::Json(body) => axum::Json(body).into_response(),
            RefusalBody::Html(page) => axum::response::Html(page).into_response(),
        };
        *response.status_mut() = self.status;
        if let Some(wait) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, wait);
        }
        response
    }
}

/// The answer of a fault that is a status of its own; `None` for faults of the body or the connection.
pub(crate) fn refusal(fault: Fault, model: &str, retry_after_secs: u64, dice: &mut Dice) -> Option<Refusal> {
    let html = |status: StatusCode| Refusal {
        status,
        retry_after: None,
        body: RefusalBody::Html(format!(
            "<html>\r\n<head><title>{status}</title></head>\r\n<body>\r\n<center><h1>{status}</h1></center>\r\n\
             <hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
        )),
    };
    Some(match fault {
        Fault::RateLimited => rate_limited().after(retry_after_secs.to_string()),
        Fault::RateLimitedFraction => rate_limited().after("0.25".to_owned()),
        Fault::RateLimitedDate => rate_limited().after(http_date(retry_after_secs)),
        Fault::RateLimitedHtml => html(StatusCode::TOO_MANY_REQUESTS),
        Fault::Html => html(StatusCode::BAD_GATEWAY),
        Fault::ServerError => Refusal::json(
            StatusCode::INTERNAL_SERVER_ERROR,
            json!({"error": {"message": "The server had an error while processing your request (injected).",
                "type": "server_error", "param": null, "code": null}}),
        ),
        Fault::Unavailable => Refusal::json(
            StatusCode::SERVICE_UNAVAILABLE,
            json!({"error": {"message": "The engine is currently overloaded, please try again later (injected).",
                "type": "overloaded_error", "param": null, "code": "engine_overloaded"}}),
        ),
        Fault::NumericCode => Refusal::json(
            StatusCode::SERVICE_UNAVAILABLE,
            json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        ),
        Fault::Unauthorized => Refusal::json(
            StatusCode::UNAUTHORIZED,
            json!({"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error",
                "param": null, "code": "invalid_api_key"}}),
        ),
        Fault::PaymentRequired => Refusal::json(
            StatusCode::PAYMENT_REQUIRED,
            json!({"error": {"message": "Insufficient Balance", "type": "unknown_error", "param": null,
                "code": "invalid_request_error"}}),
        ),
        Fault::QuotaGone => Refusal::json(
            StatusCode::TOO_MANY_REQUESTS,
            json!({"error": {"message": "You exceeded your current quota, please check your plan and billing details.",
                "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}}),
        ),
        Fault::ModelNotFound => Refusal::json(
            StatusCode::NOT_FOUND,
            json!({"error": {"message": format!("The model `{model}` does not exist or you do not have access to it."),
                "type": "invalid_request_error", "param": null, "code": "model_not_found"}}),
        ),
        Fault::RefusedContent => Refusal::json(
            StatusCode::BAD_REQUEST,
            json!({"error": {"message": "Input data may contain inappropriate content.",
                "type": "data_inspection_failed", "param": null, "code": "data_inspection_failed"}}),
        ),
        Fault::Overflow => {
            let used_tokens = 9_000 + dice.below(1_000) as u64;
            overflow(8_192, used_tokens, dice)
        }
        Fault::Reset
        | Fault::Cut
        | Fault::Silent
        | Fault::Slow
        | Fault::ErrorEvent
        | Fault::NoDone
        | Fault::NoFinish
        | Fault::Empty
        | Fault::EmptyBody
        | Fault::BadArguments => return None,
    })
}

pub(crate) fn rate_limited() -> Refusal {
    let error = json!({"message": "Rate limit reached for requests (injected).", "type": "requests",
        "param": null, "code": "rate_limit_exceeded"});
    Refusal::json(StatusCode::TOO_MANY_REQUESTS, json!({ "error": error }))
}

/// A conversation that is too long, in the words of one vendor or another.
pub(crate) fn overflow(window_tokens: u64, used_tokens: u64, dice: &mut Dice) -> Refusal {
    let body = match dice.below(5) {
        // OpenAI
        0 => {
            json!({"error": {"message": format!("This model's maximum context length is {window_tokens} tokens. \
            However, your messages resulted in {used_tokens} tokens. Please reduce the length of the messages."),
            "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}})
        }
        // vLLM: no `error` object, code a number
        1 => {
            json!({"object": "error", "message": format!("This model's maximum context length is {window_tokens} \
            tokens. However, you requested {used_tokens} tokens in the messages, Please reduce the length of the \
            messages."), "type": "BadRequestError", "param": null, "code": 400})
        }
        // llama.cpp
        2 => {
            json!({"error": {"code": 400, "message": format!("request ({used_tokens} tokens) exceeds the available \
            context size ({window_tokens} tokens), try increasing it"), "type": "exceed_context_size_error",
            "n_prompt_tokens": used_tokens, "n_ctx": window_tokens}})
        }
        // Anthropic's compatible endpoint
        3 => {
            json!({"error": {"message": format!("prompt is too long: {used_tokens} tokens > {window_tokens} maximum"),
            "type": "invalid_request_error", "param": null, "code": null}})
        }
        // DashScope
        _ => {
            json!({"error": {"message": format!("<400> InternalError.Algo.InvalidParameter: Range of input length \
            should be [1, {window_tokens}]"), "type": "invalid_request_error", "param": null,
            "code": "invalid_parameter_error"}})
        }
    };
    Refusal::json(StatusCode::BAD_REQUEST, body)
}

fn http_date(seconds_from_now: u64) -> String {
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    // A date has whole seconds: one more, so that it never lies in the past.
    let when = OffsetDateTime::now_utc() + Duration::seconds(seconds_from_now as i64 + 1);
    when.format(&format).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_met() {
        let rates = ["429=0.1", "cut=0.2"].map(|text| text.parse::<FaultRate>().unwrap());
        let mut counts = [0, 0, 0];
        for step in 0..5000 {
            match draw(&rates, &mut Dice::new(1, "task", step, 1)) {
                Some(Fault::RateLimited) => counts[0] += 1,
                Some(Fault::Cut) => counts[1] += 1,
                other => {
                    assert_eq!(other, None);
                    counts[2] += 1;
                }
            }
        }
        assert!((400..600).contains(&counts[0]) && (850..1150).contains(&counts[1]), "{counts:?}");
        for bad in ["429", "tea=0.1", "429=2", "429=x"] {
            assert!(bad.parse::<FaultRate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_those_of_scripts() {
        assert_eq!(Fault::RateLimited.name(), "429");
        assert_eq!(Fault::NoFinish.name(), "no_finish");
    }
}
