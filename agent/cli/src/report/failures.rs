use std::collections::BTreeMap;

use gaia_agent::Status;
use gaia_scorer::miss::{Miss, diagnose};
use serde::Serialize;

use super::observed::Observed;
use crate::store::{RunDirectory, SampleEntry, SampleKey};

/// Why samples are not right, found without any model. The classes do not overlap: each sample is in the first one that
/// fits. What a class says is a hint where to look, not a proof.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Failures {
    pub classes: Vec<Class>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Class {
    pub name: String,
    pub samples: u64,
    /// The first few, as `task` or `task (epoch n)`.
    pub examples: Vec<String>,
}

/// Samples named in one class.
const MAX_EXAMPLES: usize = 5;

/// An answer beyond this is none, whatever one forgives it, and to read it in every way would take its time.
const MAX_DIAGNOSED_BYTES: usize = 10_000;

/// Of the name of a tool in that of a class.
const MAX_NAME_CHARACTERS: usize = 80;

/// Groups the samples that are not right.
#[derive(Debug, Default)]
pub(crate) struct FailureCount {
    /// By rank, so that the list reads from what is easiest to mend to what is hardest.
    classes: BTreeMap<(u8, String), Class>,
}

impl FailureCount {
    /// Notes a sample and names its class, unless it is right or nobody can know.
    pub(crate) fn add(&mut self, entry: &SampleEntry, observed: &Observed) -> Option<String> {
        let (rank, name) = classify(entry, observed)?;
        let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
        let class = self.classes.entry((rank, name.clone())).or_insert_with(|| Class {
            name: name.clone(),
            samples: 0,
            examples: Vec::new(),
        });
        class.samples += 1;
        if class.examples.len() < MAX_EXAMPLES {
            class.examples.push(match key.epoch {
                1 => key.task_id,
                epoch => format!("{} (epoch {epoch})", key.task_id),
            });
        }
        Some(name)
    }

    pub(crate) fn failures(self) -> Failures {
        let mut classes: Vec<((u8, String), Class)> = self.classes.into_iter().collect();
        // Within a rank the most frequent first.
        classes.sort_by_key(|((rank, _), class)| (*rank, std::cmp::Reverse(class.samples)));
        Failures { classes: classes.into_iter().map(|(_, class)| class).collect() }
    }
}

/// The class of one sample, for which its trajectory is read.
pub(crate) fn class_of(run: &RunDirectory, entry: &SampleEntry) -> Option<String> {
    let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
    classify(entry, &Observed::of_sample(run, &key)).map(|(_, name)| name)
}

/// Rank and name of the class of a sample.
fn classify(entry: &SampleEntry, observed: &Observed) -> Option<(u8, String)> {
    let Some(result) = &entry.result else { return Some((7, "no outcome yet: resume the run".to_owned())) };
    match result.status {
        Status::Error => {
            let kind = result.error.as_ref().and_then(|error| serde_json::to_value(error.kind).ok());
            let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or("unknown").replace('_', " ");
            return Some((6, format!("error: {kind}")));
        }
        Status::NoAnswer => {
            let why = match &observed.limit {
                Some(limit) => format!("{} reached", limit.replace('_', " ")),
                None => "the model gave none".to_owned(),
            };
            return Some((5, format!("no answer: {why}")));
        }
        Status::Answered => {}
    }
    let score = result.score.as_ref().filter(|score| !score.correct)?;
    let answer = result.answer.as_deref();
    let miss = answer.filter(|answer| answer.len() <= MAX_DIAGNOSED_BYTES);
    let class = match miss.and_then(|answer| diagnose(Some(answer), &score.truth)) {
        Some(Miss::Format { faults }) => {
            let faults: Vec<&str> = faults.iter().map(|fault| fault.label()).collect();
            (0, format!("format: {}", faults.join(" and ")))
        }
        Some(Miss::Near { .. }) => (1, "near miss".to_owned()),
        _ => match (observed.failing_tool(), observed.troubled_servers.first()) {
            (Some(tool), _) => {
                // Models make up names, of any length.
                let tool: String = tool.chars().take(MAX_NAME_CHARACTERS).collect();
                (2, format!("tool trouble: `{tool}` answered with errors"))
            }
            (None, Some(server)) => (2, format!("tool trouble: server `{server}` failed")),
            (None, None) if observed.compactions > 0 => (3, "context lost: output was dropped".to_owned()),
            (None, None) => (4, "capability: another answer".to_owned()),
        },
    };
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::observed::ToolUse;
    use crate::report::test_run::{Ending, entry};

    fn class_of(ending: Ending, answer: &str, truth: &str, observed: &Observed) -> Option<String> {
        let mut entry = entry("t", 1, ending);
        if let Some(result) = &mut entry.result
            && let Some(score) = &mut result.score
        {
            result.answer = result.answer.as_ref().map(|_| answer.to_owned());
            truth.clone_into(&mut score.truth);
        }
        FailureCount::default().add(&entry, observed)
    }

    #[test]
    fn each_sample_that_is_not_right_has_one_class() {
        let nothing = Observed::default();
        let limited = Observed { limit: Some("step_limit".to_owned()), ..Observed::default() };
        let compacted = Observed { compactions: 1, ..Observed::default() };
        let broken = Observed {
            tools: BTreeMap::from([(
                "fetch/fetch".to_owned(),
                ToolUse { calls: 2, errors: 1, seconds: 1.0 },
            )]),
            ..Observed::default()
        };
        let dead = Observed { troubled_servers: ["bash".to_owned()].into(), ..Observed::default() };
        for (ending, answer, truth, observed, expected) in [
            (Ending::Correct, "42", "42", &nothing, None),
            (Ending::Unscored, "42", "42", &nothing, None),
            (Ending::Missing, "", "", &nothing, Some("no outcome yet: resume the run")),
            (Ending::Error, "", "42", &nothing, Some("error: server")),
            (Ending::NoAnswer, "", "42", &limited, Some("no answer: step limit reached")),
            (Ending::NoAnswer, "", "42", &nothing, Some("no answer: the model gave none")),
            (Ending::Wrong, "42 km", "42", &broken, Some("format: unit or currency sign")),
            (Ending::Wrong, "43", "42", &broken, Some("near miss")),
            (Ending::Wrong, "90", "42", &broken, Some("tool trouble: `fetch/fetch` answered with errors")),
            (Ending::Wrong, "90", "42", &dead, Some("tool trouble: server `bash` failed")),
            (Ending::Wrong, "90", "42", &compacted, Some("context lost: output was dropped")),
            (Ending::Wrong, "90", "42", &nothing, Some("capability: another answer")),
        ] {
            let found = class_of(ending, answer, truth, observed);
            assert_eq!(found.as_deref(), expected, "{ending:?} {answer} {truth}");
        }
    }

    #[test]
    fn classes_are_counted_and_name_a_few_samples() {
        let mut count = FailureCount::default();
        for number in 0..8 {
            count.add(&entry(&format!("task-{number}"), 1, Ending::Error), &Observed::default());
        }
        count.add(&entry("right", 1, Ending::Correct), &Observed::default());
        let failures = count.failures();
        assert_eq!(failures.classes.len(), 1);
        assert_eq!(failures.classes[0].samples, 8);
        assert_eq!(failures.classes[0].examples, ["task-0", "task-1", "task-2", "task-3", "task-4"]);
    }
}
