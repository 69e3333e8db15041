use crate::limits::BYTES_PER_TOKEN;
use crate::outcome::Usage;

/// How much of the model's window the conversation fills, without a tokenizer: the provider's own count of the last
/// reply, and an estimate of what was added since.
#[derive(Debug)]
pub(crate) struct Window {
    /// Known from the settings or learnt from the provider.
    tokens: Option<u64>,
    /// Tokens and bytes of the conversation when they were last counted.
    counted: Option<(u64, usize)>,
}

/// The share of the window above which room is made; the rest is for the reply and the error of the estimate.
const FULL: f64 = 0.8;

/// The share that is left in use when room is made. Far enough below `FULL` that it is rare: each time the provider
/// has to read everything anew that it had cached.
const ROOMY: f64 = 0.5;

/// Tokens of a byte that nobody counted yet: code, numbers and other scripts have more than English prose.
const NEW_TOKENS_PER_BYTE: f64 = 1.0 / 3.0;

/// An overflow says that the estimate was too low; the window is taken for this much of it.
const OVERFLOWN_ESTIMATE: f64 = 0.9;

impl Window {
    pub(crate) fn new(tokens: Option<u64>) -> Self {
        Self { tokens, counted: None }
    }

    /// After a reply: `bytes` of the conversation as sent, and of the reply, came to `usage`.
    pub(crate) fn count(&mut self, usage: Usage, bytes: usize) {
        if usage.total() > 0 {
            self.counted = Some((usage.total(), bytes.max(1)));
        }
    }

    /// A request with `bytes` of conversation did not fit.
    pub(crate) fn overflown(&mut self, named_tokens: Option<u64>, bytes: usize) {
        let guess = (self.estimate(bytes) as f64 * OVERFLOWN_ESTIMATE) as u64;
        self.tokens = named_tokens.or(Some(self.tokens.map_or(guess, |known| known.min(guess))));
    }

    pub(crate) fn is_full(&self, bytes: usize) -> bool {
        self.is_above(FULL, bytes)
    }

    pub(crate) fn is_roomy(&self, bytes: usize) -> bool {
        !self.is_above(ROOMY, bytes)
    }

    /// Bytes of conversation that fill the given share of the window, as far as anyone can tell.
    pub(crate) fn bytes_of(&self, share: f64) -> Option<usize> {
        let per_byte =
            self.counted.map_or(NEW_TOKENS_PER_BYTE, |(tokens, bytes)| tokens as f64 / bytes as f64);
        self.tokens.map(|tokens| (tokens as f64 * share / per_byte) as usize)
    }

    fn is_above(&self, share: f64, bytes: usize) -> bool {
        self.tokens.is_some_and(|window| self.estimate(bytes) as f64 > window as f64 * share)
    }

    fn estimate(&self, bytes: usize) -> u64 {
        let Some((tokens, counted_bytes)) = self.counted else {
            return (bytes / BYTES_PER_TOKEN) as u64;
        };
        let per_byte = tokens as f64 / counted_bytes as f64;
        match bytes.checked_sub(counted_bytes) {
            Some(new) => tokens + (new as f64 * per_byte.clamp(NEW_TOKENS_PER_BYTE, 1.0)) as u64,
            None => (bytes as f64 * per_byte) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(tokens: u64) -> Usage {
        Usage { input_tokens: tokens, ..Usage::default() }
    }

    #[test]
    fn the_providers_count_corrects_the_estimate() {
        let mut window = Window::new(Some(1_000));
        assert!(!window.is_full(3_000) && window.is_full(3_300));
        // Half a token a byte, as in a script that is not Latin.
        window.count(usage(500), 1_000);
        assert!(!window.is_full(1_500) && window.is_full(1_700));
        // What is below the count is less by the same measure, tools and all.
        assert!(window.is_roomy(1_000) && !window.is_roomy(1_100));
        window.count(Usage::default(), 10);
        assert!(window.is_full(1_700), "a reply without a count corrects nothing");
    }

    #[test]
    fn an_overflow_teaches_the_window() {
        let mut window = Window::new(None);
        assert!(!window.is_full(1 << 30));
        window.overflown(None, 40_000);
        assert!(window.is_full(40_000) && !window.is_full(20_000));
        window.overflown(Some(100_000), 40_000);
        assert!(!window.is_full(300_000), "what the provider names is right");
    }
}
