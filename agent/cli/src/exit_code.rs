//! How a command ends: the documented exit codes and the error that carries one.

use std::fmt;

/// Every requested sample has a scored outcome, whatever the score; any other command: done.
pub const SUCCESS: u8 = 0;
/// An unexpected fault: a bug or a broken disk.
pub const FAULT: u8 = 1;
/// The command line, the config or the data handed in is wrong (clap uses the same number).
pub const USAGE: u8 = 2;
/// The run ended with samples that have no outcome: errors, budget, interrupt, a refused key, a quota that is gone.
pub const INCOMPLETE: u8 = 3;
/// The environment is not usable: no Docker, no image, a server that will not start, no model endpoint.
pub const ENVIRONMENT: u8 = 4;
/// `gaia call`: the tool itself reported an error.
pub const TOOL: u8 = 5;

/// `gaia replay`: a sample went another way than its recording.
pub const DIFFERS: u8 = 6;

/// The section of `gaia --help` about the numbers above.
pub const HELP: &str = "\
Exit codes:
  0  every requested sample has a scored outcome, whatever the score
  1  unexpected fault
  2  wrong command line, config or data
  3  the run ended with samples that have no outcome (errors, budget, interrupt, key refused, quota gone)
  4  environment not usable (no Docker, no image, a server will not start, no model endpoint)
  5  gaia call: the tool itself reported an error
  6  gaia replay: a sample went another way than its recording";

/// An error of a command together with the exit code it leads to.
#[derive(Debug)]
pub struct CommandError {
    pub exit_code: u8,
    pub error: anyhow::Error,
    /// The way out, printed on a line of its own.
    pub hint: Option<String>,
}

pub type CommandResult<T = u8> = Result<T, CommandError>;

impl CommandError {
    pub fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit_code: USAGE, error: error.into(), hint: None }
    }

    pub fn environment(error: impl Into<anyhow::Error>) -> Self {
        Self { exit_code: ENVIRONMENT, error: error.into(), hint: None }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What nobody classified is a fault of ours.
impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self { exit_code: FAULT, error: error.into(), hint: None }
    }
}

/// The text for people: the error, its causes, the hint.
impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "error: {}", self.error)?;
        let mut shown = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let cause = cause.to_string();
            // Many libraries repeat their source in their own text.
            if !shown.contains(&cause) {
                write!(formatter, "\n  caused by: {cause}")?;
                shown = cause;
            }
        }
        if let Some(hint) = &self.hint {
            write!(formatter, "\n\nhint: {hint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn shows_causes_once_and_the_hint_last() {
        let cause = anyhow::anyhow!("no such file");
        let error = Err::<(), _>(cause).context("failed to read `a.toml`").unwrap_err();
        let error = CommandError::usage(error).with_hint("run `gaia doctor`");
        assert_eq!(
            error.to_string(),
            "error: failed to read `a.toml`\n  caused by: no such file\n\nhint: run `gaia doctor`"
        );
        let repeated = Err::<(), _>(anyhow::anyhow!("no such file")).context("failed: no such file");
        assert_eq!(CommandError::from(repeated.unwrap_err()).to_string(), "error: failed: no such file");
    }
}
