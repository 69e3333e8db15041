//! Numbers that stand in the words of an error.

use std::time::Duration;

/// The window in tokens that an overflow message names: the first number behind words that announce it.
pub(super) fn window_in(message: &str) -> Option<u64> {
    const ANNOUNCEMENTS: [&str; 20] = [
        "maximum context length is",
        "maximum context length of",
        "model maximum context length:",
        "context size (",
        "context size of",
        "context window of",
        "context length of only",
        "model's context length (",
        "maximum prompt length is",
        "number of tokens allowed (",
        "model token limit:",
        "must be <=",
        "while limit is",
        "max size:",
        "n_ctx",
        "should be [1,",
        "too large for model with",
        "maximum allowed length (",
        "(tpm): limit",
        // Anthropic: "208310 tokens > 200000 maximum".
        " > ",
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

/// The wait that the body of a refusal asks for, of those that send no header: `try again in 6m0.5s`, `retry after
/// 20 seconds`, Google's `"retryDelay": "32s"`.
pub(super) fn wait_in(body: &str) -> Option<Duration> {
    const ANNOUNCEMENTS: [&str; 5] =
        ["try again in ", "retry in ", "retry after ", "try again after ", "\"retrydelay\":"];
    let lower = body.to_lowercase();
    ANNOUNCEMENTS.iter().find_map(|words| {
        let rest = &lower[lower.find(words)? + words.len()..];
        duration_in(rest.trim_start_matches([' ', '"']))
    })
}

/// `6m0.5s`, `20 seconds`, `1h2m`, `250ms`; a number without a unit is seconds.
fn duration_in(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = None;
    loop {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (number, tail) = rest.split_at(end.unwrap_or(rest.len()));
        let Ok(number) = number.trim_end_matches('.').parse::<f64>() else { break };
        let tail = tail.trim_start_matches(' ');
        let unit: String = tail.chars().take_while(char::is_ascii_alphabetic).collect();
        let factor = match unit.as_str() {
            "ms" | "milliseconds" => 0.001,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3_600.0,
            _ => 1.0,
        };
        *seconds.get_or_insert(0.0) += number * factor;
        rest = &tail[unit.len()..];
    }
    Duration::try_from_secs_f64(seconds?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_out_of_words() {
        for (body, expected) in [
            ("Please try again in 6m0.5s. Need more?", Some(360.5)),
            ("Please try again in 250ms.", Some(0.25)),
            ("Please retry after 20 seconds.", Some(20.0)),
            ("Please retry in 32.5s.", Some(32.5)),
            (r#"{"details": [{"retryDelay": "32s"}]}"#, Some(32.0)),
            ("try again in 1h2m", Some(3_720.0)),
            ("Please try again later", None),
            ("retry after the maintenance", None),
            ("", None),
        ] {
            assert_eq!(wait_in(body).map(|wait| wait.as_secs_f64()), expected, "{body}");
        }
    }

    #[test]
    fn windows_are_read_out_of_words() {
        for (message, expected) in [
            ("prompt is too long: 208310 tokens > 200000 maximum", Some(200_000)),
            ("maximum context length is 8,192 tokens", Some(8_192)),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", Some(4_096)),
            ("Input is too long for requested model.", None),
        ] {
            assert_eq!(window_in(message), expected, "{message}");
        }
    }
}
