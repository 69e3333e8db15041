//! Decides whether an answer is right, and what a set of such decisions says.
//!
//! Pure: values in, values out. No file, no network, no clock, no async.
//!
//! - [`official`]: the scorer of the GAIA leaderboard, outcome for outcome. This is *the* score.
//! - [`quasi`]: the looser exact and partial match of HelloAgents. A second figure, never mixed with the first.
//! - [`miss`]: what a wrong answer lacks: a matter of format, nearly right, or wrong altogether. It changes no score.
//! - [`statistics`]: what follows from many verdicts (intervals, paired tests, repeated attempts).
//! - [`python`]: the corners of Python's text and number rules on which both scorers stand.

pub mod miss;
pub mod official;
pub mod python;
pub mod quasi;
pub mod statistics;
