use std::path::{Path, PathBuf};

use crate::support::*;

trials![every_named_test_exists, a_name_without_a_test_is_found];

/// The tests that a line of the table names: what stands in backticks and has `::` in it.
fn named(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).filter(|code| code.contains("::")).collect()
}

fn exists(name: &str) -> bool {
    let Some((place, test)) = name.rsplit_once("::") else { return false };
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files: Vec<PathBuf> = match place.ends_with(".rs") {
        true => vec![package.join(place), package.join("../..").join(place)],
        false => vec![package.join(format!("tests/tools/{place}.rs"))],
    };
    let source: String = files.into_iter().filter_map(|file| fs_err::read_to_string(file).ok()).collect();
    let trials =
        source.split_once("trials![").and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
    let listed = place.ends_with(".rs")
        || trials.is_some_and(|list| list.split(',').any(|trial| trial.trim() == test));
    listed && source.contains(&format!("fn {test}("))
}

async fn every_named_test_exists() {
    let table = include_str!("FAULTS.md");
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("|---") && !line.ends_with("| tests |"))
        .collect();
    assert!(rows.len() > 90, "{}", rows.len());
    for row in rows {
        let tests = row.rsplit_once(" | ").map(|(_, tests)| tests).unwrap_or_default();
        let reason = tests.trim_start().starts_with("– ");
        assert!(reason || !named(tests).is_empty(), "neither a test nor a reason: {row}");
        for name in named(tests) {
            assert!(exists(name), "there is no test `{name}`, which this row names: {row}");
        }
    }
}

async fn a_name_without_a_test_is_found() {
    assert!(
        exists("map::every_named_test_exists") && exists("src/tools/names.rs::fnv1a_is_the_published_one")
    );
    assert!(!exists("map::no_such_test") && !exists("nowhere::every_named_test_exists"));
    assert!(!exists("map::exists"), "a function that is no trial");
}
