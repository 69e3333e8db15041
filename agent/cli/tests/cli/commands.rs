use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::support::{Place, repository};

#[test]
fn help_documents_the_exit_codes() {
    let ended = Place::new().gaia(&["--help"]);
    assert_eq!(ended.code, Some(0));
    for line in ["2  wrong command line", "3  the run ended with samples", "5  gaia call"] {
        assert!(ended.stdout.contains(line), "{}", ended.stdout);
    }
}

#[test]
fn pairs_are_scored_as_every_line_of_the_official_vectors_says() {
    let file = repository().join("scorer/tests/vectors/scorer_vectors.jsonl");
    let ended = Place::new().gaia(&["score", "--pairs", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let expected = BufReader::new(fs_err::File::open(&file).unwrap()).lines();
    let mut scored = ended.stdout.lines();
    let mut count = 0;
    for expected in expected {
        let expected: Value = serde_json::from_str(&expected.unwrap()).unwrap();
        let scored: Value = serde_json::from_str(scored.next().unwrap()).unwrap();
        assert_eq!(scored["pred"], expected["pred"]);
        assert_eq!(
            (&scored["correct"], &scored["kind"]),
            (&expected["correct"], &expected["kind"]),
            "{expected}"
        );
        count += 1;
    }
    assert!(count > 20_000, "only {count} vectors");
    assert_eq!(scored.next(), None);
}

#[test]
fn pairs_are_read_from_stdin() {
    let ended = Place::new().gaia_with(&["score", "--pairs", "-"], "{\"pred\": null, \"truth\": \"1\"}\n");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let line: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&line["pred"], &line["correct"], &line["kind"]),
        (&Value::Null, &false.into(), &"number".into())
    );
}

#[test]
fn a_dataset_is_checked_and_counted() {
    let place = Place::new();
    place.write_dataset();
    let ended = place.gaia(&["dataset", "check", "data"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("ok: 3 samples and 0 attachments"), "{}", ended.stdout);
    let stats: Value =
        serde_json::from_str(&place.gaia(&["dataset", "stats", "data", "--json"]).stdout).unwrap();
    assert_eq!(stats["total"]["samples"], 3);
    place.gaia(&["dataset", "check", "absent"]).fails_with(2, &["absent"]);
    place.gaia(&["dataset", "check", "data", "--split", "train"]).fails_with(2, &["`train`", "`validation`"]);
}

#[test]
fn schema_and_completions_are_data() {
    let place = Place::new();
    let schema: Value = serde_json::from_str(&place.gaia(&["schema"]).stdout).unwrap();
    assert!(schema["properties"]["mcp_servers"].is_object());
    for shell in ["bash", "zsh", "fish"] {
        let ended = place.gaia(&["completions", shell]);
        assert!(
            ended.code == Some(0) && ended.stdout.contains("resume") && ended.stderr.is_empty(),
            "{ended:?}"
        );
    }
}

#[test]
fn tools_and_call_say_what_is_missing() {
    let place = Place::new();
    place.write("empty.toml", "");
    place.gaia(&["tools", "empty.toml"]).fails_with(2, &["no MCP server"]);
    place.write("one.toml", "[mcp_servers.a]\ncommand = \"/bin/false\"\n");
    place.gaia(&["call", "one.toml", "a/b", "{nonsense"]).fails_with(2, &["no JSON object"]);
    place.gaia(&["call", "one.toml", "a/b", "{}"]).fails_with(4, &["`a`"]);
}
