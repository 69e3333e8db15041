//! The JSON of OTLP: what a collector takes at `/v1/traces`.

use serde_json::{Value, json};
use time::OffsetDateTime;

/// INTERNAL and CLIENT of the specification: within the process, and out of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Internal = 1,
    Client = 3,
}

/// One span. Times are the process's own clock's.
#[derive(Debug)]
pub(super) struct Span<'a> {
    pub(super) trace: &'a str,
    pub(super) id: String,
    pub(super) parent: &'a str,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) begun: OffsetDateTime,
    pub(super) attributes: Vec<(&'static str, Value)>,
    /// What went wrong.
    pub(super) error: Option<String>,
}

impl Span<'_> {
    /// As it ends now.
    pub(super) fn ended(self) -> Value {
        let mut span = json!({
            "traceId": self.trace,
            "spanId": self.id,
            "name": self.name,
            "kind": self.kind as u8,
            "startTimeUnixNano": self.begun.unix_timestamp_nanos().to_string(),
            "endTimeUnixNano": OffsetDateTime::now_utc().max(self.begun).unix_timestamp_nanos().to_string(),
            "attributes": attributes(self.attributes),
            // OK is for applications to say; an instrumentation says nothing.
            "status": self.error.map_or_else(|| json!({}), |message| json!({ "code": 2, "message": message })),
        });
        if !self.parent.is_empty() {
            span["parentSpanId"] = self.parent.into();
        }
        span
    }
}

/// A request with these spans.
pub(super) fn request(service: &str, spans: Vec<Value>) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let about = vec![("service.name", json!(service)), ("service.version", json!(version))];
    json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(about) },
        "scopeSpans": [{ "scope": { "name": "gaia", "version": version }, "spans": spans }],
    }] })
}

fn attributes(pairs: Vec<(&'static str, Value)>) -> Value {
    let shown = pairs.into_iter().filter(|(_, value)| !value.is_null());
    shown.map(|(key, value)| json!({ "key": key, "value": any_value(value) })).collect()
}

/// A value in OTLP's JSON, where whole numbers are text.
pub(crate) fn any_value(value: Value) -> Value {
    match value {
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Array(values) => {
            json!({ "arrayValue": { "values": values.into_iter().map(any_value).collect::<Vec<_>>() } })
        }
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    }
}
