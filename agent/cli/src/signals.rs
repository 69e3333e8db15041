//! Ctrl-C and SIGTERM: the first lets running samples finish, the second cancels them, the third gives up.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::console::Console;

/// What the user asked for by signals, or what the run decided itself.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    /// Start nothing new, finish what runs.
    pub drain: CancellationToken,
    /// Give up what runs, in order.
    pub cancel: CancellationToken,
    /// Leave at once.
    pub abandon: CancellationToken,
}

impl Interrupt {
    /// Takes the signals over for the rest of the process.
    pub fn listen(console: Console) -> std::io::Result<Self> {
        let interrupt = Self::default();
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let escalation = interrupt.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = interrupts.recv() => {}
                    Some(()) = terminations.recv() => {}
                    else => return,
                }
                let (step, words) = escalation.next();
                // First the words: the last step ends the process.
                console.warn(words);
                step.cancel();
            }
        });
        Ok(interrupt)
    }

    /// What the next signal cancels, and what to tell the user.
    fn next(&self) -> (&CancellationToken, &'static str) {
        if !self.drain.is_cancelled() {
            (&self.drain, "stopping: running samples finish, no new one starts; once more cancels them")
        } else if !self.cancel.is_cancelled() {
            let words =
                "cancelling the running samples; `gaia resume` starts them anew; once more leaves at once";
            (&self.cancel, words)
        } else {
            (&self.abandon, "leaving")
        }
    }
}

/// Cancelled by the first SIGINT, SIGTERM or SIGHUP, for commands that have nothing to finish.
pub fn ends() -> std::io::Result<CancellationToken> {
    let end = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = signal(kind)?;
        let end = end.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                end.cancel();
            }
        });
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_goes_one_step_further() {
        let interrupt = Interrupt::default();
        let state = |interrupt: &Interrupt| {
            [&interrupt.drain, &interrupt.cancel, &interrupt.abandon].map(CancellationToken::is_cancelled)
        };
        interrupt.next().0.cancel();
        assert_eq!(state(&interrupt), [true, false, false]);
        interrupt.next().0.cancel();
        assert_eq!(state(&interrupt), [true, true, false]);
        interrupt.next().0.cancel();
        assert_eq!(state(&interrupt), [true, true, true]);
    }
}
