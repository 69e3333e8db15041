//! Two or more runs beside each other: what was changed, who won which task, and whether the difference means anything.

mod html;
mod markdown;
mod outcomes;
mod pair;
mod table;

use std::cmp::Ordering;

use serde::Serialize;

use crate::store::{RunDirectory, RunRecord, StoreError};
pub use html::write_html;
pub use markdown::write_markdown;
pub use outcomes::{Outcomes, RunFigures};
pub use pair::{LevelPair, Pair, Verdict};
pub use table::comparison_table;

/// The first run and each of the others beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    pub runs: Vec<RunFigures>,
    pub pairs: Vec<Pair>,
}

impl Comparison {
    /// # Errors
    /// When a result cannot be read. Runs without a common task are no error: the pair says so.
    pub fn of(runs: &[(RunDirectory, RunRecord)]) -> Result<Self, StoreError> {
        let outcomes: Vec<Outcomes> =
            runs.iter().map(|(run, record)| Outcomes::of_run(run, record)).collect::<Result<_, _>>()?;
        let figures = outcomes.iter().zip(runs).enumerate();
        let mut comparison = Self {
            runs: figures
                .map(|(index, (outcomes, (_, record)))| outcomes.figures(letter(index), record))
                .collect(),
            pairs: Vec::new(),
        };
        if let (Some(first), Some((_, first_record))) = (outcomes.first(), runs.first()) {
            for (index, (second, (_, record))) in outcomes.iter().zip(runs).enumerate().skip(1) {
                let pair = Pair::of((&letter(0), first, first_record), (&letter(index), second, record));
                comparison.pairs.push(pair);
            }
        }
        correct_for_many(&mut comparison.pairs);
        Ok(comparison)
    }
}

/// `A`, `B` and so on; beyond `Z` by number.
fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => char::from(b'A' + index).to_string(),
        _ => format!("R{}", index + 1),
    }
}

/// Who looks at many differences finds one by chance: by Holm (1979) the smallest p-value is taken as many times as there
/// are, the next one time less, and so on.
fn correct_for_many(pairs: &mut [Pair]) {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by(|left, right| {
        pairs[*left].p_value.partial_cmp(&pairs[*right].p_value).unwrap_or(Ordering::Equal)
    });
    let mut least: f64 = 0.0;
    for (done, index) in order.iter().enumerate() {
        let times = (pairs.len() - done) as f64;
        least = least.max((times * pairs[*index].p_value).min(1.0));
        pairs[*index].corrected_p_value = least;
        pairs[*index].judge();
    }
}
