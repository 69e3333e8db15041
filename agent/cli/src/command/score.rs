use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use gaia_scorer::{official, quasi};
use serde_json::{Map, Value};

use super::{Surroundings, open_run};
use crate::args::{ScoreArguments, ScorerName};
use crate::dataset::{self, Split};
use crate::exit_code::{self, CommandError, CommandResult};
use crate::report::{Figures, write_files};
use crate::scoring::score_answer;
use crate::session::{Output, show};
use crate::store::SampleKey;

pub(super) fn score(arguments: ScoreArguments, surroundings: &Surroundings) -> CommandResult {
    match (&arguments.run, &arguments.pairs) {
        (Some(run), _) => score_run(run, &arguments, surroundings),
        (None, Some(file)) => {
            let out = BufWriter::new(io::stdout().lock());
            if file == Path::new("-") {
                score_pairs(io::stdin().lock(), out, arguments.scorer)
            } else {
                let file = fs_err::File::open(file).map_err(CommandError::usage)?;
                score_pairs(BufReader::new(file), out, arguments.scorer)
            }
        }
        // clap's group asks for one of the two.
        (None, None) => Err(CommandError::usage(anyhow::anyhow!("neither a run nor --pairs is given"))),
    }
}

fn score_pairs(input: impl BufRead, mut out: impl Write, scorer: ScorerName) -> CommandResult {
    for (index, line) in input.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let scored = score_pair(&line, scorer).map_err(|error| {
            CommandError::usage(error.context(format!("line {} is no pair", index + 1)))
                .with_hint(r#"a line is {"pred": string or null, "truth": string}"#)
        })?;
        serde_json::to_writer(&mut out, &scored).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(exit_code::SUCCESS)
}

/// The line as it came, plus the verdict.
fn score_pair(line: &str, scorer: ScorerName) -> anyhow::Result<Map<String, Value>> {
    let mut pair: Map<String, Value> = serde_json::from_str(line)?;
    let pred = match pair.get("pred") {
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Null) => None,
        Some(_) => anyhow::bail!("`pred` is neither text nor null"),
        None => anyhow::bail!("there is no `pred`"),
    };
    let truth = pair.get("truth").and_then(Value::as_str).context("there is no `truth` that is text")?;
    let (correct, kind, reason) = match scorer {
        ScorerName::Official => {
            let verdict = official::score(pred, truth);
            (verdict.correct, Some(verdict.kind), verdict.reason.to_string())
        }
        ScorerName::Quasi => {
            let quasi = quasi::score(pred, truth);
            let relation = match (quasi.exact, quasi.partial) {
                (true, _) => "equal once normalised",
                (false, true) => "a partial match only",
                (false, false) => "different",
            };
            (quasi.exact, None, format!("{relation}: `{}` and `{}`", quasi.norm_pred, quasi.norm_truth))
        }
    };
    pair.insert("correct".to_owned(), correct.into());
    if let Some(kind) = kind {
        pair.insert("kind".to_owned(), serde_json::to_value(kind)?);
    }
    pair.insert("reason".to_owned(), reason.into());
    Ok(pair)
}

/// Scores stored answers again, with the truths that the dataset has today.
fn score_run(name: &str, arguments: &ScoreArguments, surroundings: &Surroundings) -> CommandResult {
    let (run, mut record) = open_run(name, &arguments.out)?;
    let _lock = run.lock().map_err(CommandError::usage)?;
    let split = parse_split(&record.dataset.split)?;
    let dataset = dataset::load(&record.dataset.path, split).map_err(CommandError::usage)?;
    let truths: HashMap<String, Option<String>> =
        dataset.samples.into_iter().map(|sample| (sample.task_id, sample.truth)).collect();
    for entry in run.entries(&record) {
        let entry = entry?;
        let Some(mut result) = entry.result else { continue };
        let truth = truths.get(&result.task_id).ok_or_else(|| {
            CommandError::usage(anyhow::anyhow!(
                "task `{}` of the run is not in the dataset `{}`",
                result.task_id,
                record.dataset.path.display()
            ))
        })?;
        let score = score_answer(result.answer.as_deref(), truth.as_deref());
        if score != result.score {
            result.score = score;
            run.sample(&SampleKey { task_id: result.task_id.clone(), epoch: entry.epoch }).commit(&result)?;
        }
    }
    record.dataset.has_truth =
        record.dataset.samples.iter().any(|sample| truths.get(&sample.task_id).is_some_and(Option::is_some));
    let figures = Figures::of_run(&run, &record)?;
    record.totals = Some(figures.totals.clone());
    run.write_record(&record)?;
    let report = write_files(&run, &record, &figures)?;
    show(&figures, &report, &Output::from_flag(arguments.json), &surroundings.console)?;
    Ok(exit_code::SUCCESS)
}

pub(super) fn parse_split(name: &str) -> CommandResult<Split> {
    match name {
        "validation" => Ok(Split::Validation),
        "test" => Ok(Split::Test),
        other => Err(CommandError::usage(anyhow::anyhow!(
            "there is no split `{other}`; the splits are `validation` and `test`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pairs(input: &str, scorer: ScorerName) -> CommandResult<Vec<Value>> {
        let mut out = Vec::new();
        score_pairs(input.as_bytes(), &mut out, scorer)?;
        Ok(String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn pairs_come_back_in_order_with_verdict_kind_and_reason() {
        let input = "{\"pred\": \"$1,000\", \"truth\": \"1000\", \"id\": 7}\n\n{\"pred\": null, \"truth\": \"Paris\"}\n";
        let lines = pairs(input, ScorerName::Official).unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["id"], 7, "what else is in a line stays");
        assert_eq!(
            (&lines[0]["pred"], &lines[0]["correct"], &lines[0]["kind"]),
            (&json!("$1,000"), &json!(true), &json!("number"))
        );
        assert_eq!(
            (&lines[1]["pred"], &lines[1]["correct"], &lines[1]["kind"]),
            (&json!(null), &json!(false), &json!("string"))
        );
        assert!(lines.iter().all(|line| line["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
    }

    #[test]
    fn the_quasi_scorer_takes_a_list_in_any_order() {
        let input = "{\"pred\": \"b, a\", \"truth\": \"a, b\"}";
        assert_eq!(pairs(input, ScorerName::Quasi).unwrap()[0]["correct"], true);
        assert_eq!(pairs(input, ScorerName::Official).unwrap()[0]["correct"], false);
    }

    #[test]
    fn a_bad_line_is_named_and_is_the_users() {
        let error =
            pairs("{\"pred\": \"a\", \"truth\": \"a\"}\n{\"pred\": 1}", ScorerName::Official).unwrap_err();
        assert_eq!(error.exit_code, exit_code::USAGE);
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
