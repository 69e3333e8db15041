//! Runs that were written elsewhere: by an older gaia, and sealed by somebody else.

use std::path::Path;

use age::secrecy::ExposeSecret;
use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};
use serde_json::Value;

use crate::gaia::{Desk, json, results};

/// Copies the run of version 1 to where a run is looked for, with the places of this machine.
fn lay_out(from: &Path, to: &Path, places: &[(&str, &str)]) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            lay_out(&path, &target, places);
            continue;
        }
        let text = fs_err::read_to_string(&path).unwrap();
        let text = places.iter().fold(text, |text, (mark, place)| text.replace(mark, place));
        fs_err::write(target, text).unwrap();
    }
}

#[tokio::test]
async fn a_run_of_an_older_format_is_read_reported_scored_and_finished() {
    let script = Script::new().task("Which colour has boat 3?", [turn::submit("white")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    let rows: Vec<_> = [(1, "blue"), (2, "red"), (3, "green"), (1, "white")]
        .into_iter()
        .enumerate()
        .map(|(n, (level, truth))| {
            (format!("task-{n:02}"), format!("Which colour has boat {n}?"), level, truth)
        })
        .collect();
    let lines: Vec<_> = rows
        .iter()
        .map(|(id, question, level, truth)| (id.as_str(), question.as_str(), *level, *truth))
        .collect();
    desk.dataset(&lines);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[agent]\nanswer_tool = \
             \"submit/submit\"\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let planned = desk.gaia(&["run", "c.toml", "--dry-run", "--json"]).await;
    assert_eq!(planned.code, 0, "{planned:#?}");
    let planned: Value = serde_json::from_str(&planned.stdout).unwrap();
    let fingerprint = planned["dataset"]["fingerprint"].as_str().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/run-of-version-1");
    let run = desk.path().join("runs/20261101T090000Z-1a2b3");
    let folder = desk.path().to_str().unwrap();
    let places =
        [("@FOLDER@", folder), ("@BASE_URL@", model.base_url.as_str()), ("@FINGERPRINT@", fingerprint)];
    lay_out(&fixture, &run, &places);
    assert_eq!(json(&run.join("run.json"))["format_version"], 1);

    let report = desk.gaia(&["report", "last", "--json"]).await;
    assert_eq!(report.code, 0, "{report:#?}");
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let totals = &report["figures"]["totals"];
    assert_eq!(
        (&totals["correct"], &totals["answered"], &totals["missing"]),
        (&2.into(), &3.into(), &1.into())
    );
    assert_eq!(report["figures"]["answers"], "single run", "it was always one run of the loop");

    // What a replay needs was not kept then, and it says so.
    let replayed = desk.gaia(&["replay", "last"]).await;
    assert_eq!(replayed.code, 6, "{replayed:#?}");
    assert!(replayed.stderr.contains("kept no list of tools"), "{replayed:#?}");

    let other = desk.gaia(&["resume", "last", "--set", "model.params.temperature=1"]).await;
    assert!(other.code == 2 && other.stderr.contains("model.params"), "{other:#?}");
    assert_eq!(
        other.stderr.matches(" → ").count(),
        1,
        "keys that are newer than the run are no difference: {other:#?}"
    );
    let finished = desk.gaia(&["resume", "last"]).await;
    assert_eq!(finished.code, 0, "{finished:#?}");
    assert_eq!((results(&run).len(), model.stats().requests), (4, 1), "only what was missing was asked");
    let record = json(&run.join("run.json"));
    assert_eq!((&record["format_version"], record["sessions"].as_array().unwrap().len()), (&2.into(), 2));

    let scored = desk.gaia(&["score", "last", "--json"]).await;
    assert_eq!(scored.code, 0, "{scored:#?}");
    let scored: Value = serde_json::from_str(&scored.stdout).unwrap();
    assert_eq!(scored["figures"]["totals"]["correct"], 3);

    // What comes after today's is refused, and both are named.
    let text = fs_err::read_to_string(run.join("run.json")).unwrap();
    fs_err::write(run.join("run.json"), text.replace("\"format_version\": 2", "\"format_version\": 3"))
        .unwrap();
    for command in ["report", "resume", "replay", "score"] {
        let refused = desk.gaia(&[command, "last"]).await;
        assert_eq!(refused.code, 2, "{command}: {refused:#?}");
        for words in ["format version is 3", "versions up to 2"] {
            assert!(refused.stderr.contains(words), "{command}: {refused:#?}");
        }
    }
    model.close().await;
}

#[tokio::test]
async fn a_sealed_recording_is_replayed_by_who_has_the_key_and_read_by_nobody_else() {
    let question = "Which colour has the boat in the harbour?";
    let script = Script::new().task(question, [turn::text("hm"), turn::submit("pale blue")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new();
    desk.dataset(&[("task-1", question, 1, "dark ultramarine")]);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[agent]\nanswer_tool = \
             \"submit/submit\"\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let ended = desk.gaia(&["run", "c.toml"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    model.close().await;

    let refused = desk.gaia(&["export", "last", "--format", "sealed", "--out", "run.age"]).await;
    assert_eq!(refused.code, 2, "{refused:#?}");
    for words in ["must not be shared in plain text", "--key"] {
        assert!(refused.stderr.contains(words), "{refused:#?}");
    }
    assert!(!desk.path().join("run.age").exists());
    let identity = age::x25519::Identity::generate();
    desk.write("key.txt", &format!("# created now\n{}\n", identity.to_string().expose_secret()));
    let key = identity.to_public().to_string();
    let sealed =
        desk.gaia(&["export", "last", "--format", "sealed", "--key", &key, "--out", "run.age"]).await;
    assert_eq!(sealed.code, 0, "{sealed:#?}");
    let bytes = fs_err::read(desk.path().join("run.age")).unwrap();
    for secret in ["boat in the harbour", "ultramarine", "task-1"] {
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret}");
    }

    // Somebody else, with neither dataset nor model.
    let other = Desk::new();
    fs_err::copy(desk.path().join("run.age"), other.path().join("run.age")).unwrap();
    let stranger = age::x25519::Identity::generate();
    other.write("key.txt", stranger.to_string().expose_secret());
    let refused = other.gaia(&["unseal", "run.age", "--identity", "key.txt"]).await;
    assert!(refused.code == 2 && refused.stderr.contains("another key"), "{refused:#?}");
    fs_err::copy(desk.path().join("key.txt"), other.path().join("key.txt")).unwrap();
    let unsealed = other.gaia(&["unseal", "run.age", "--identity", "key.txt"]).await;
    assert_eq!(unsealed.code, 0, "{unsealed:#?}");
    let run = other.runs().pop().unwrap();
    assert_eq!(other.path().join(unsealed.stdout.trim()), run);
    fs_err::remove_dir_all(desk.path().join("samples")).unwrap();
    let replayed = other.gaia(&["replay", "last", "--json"]).await;
    assert_eq!(replayed.code, 0, "{replayed:#?}");
    assert_eq!(serde_json::from_str::<Value>(&replayed.stdout).unwrap()["same"], 1);
    for (path, content) in crate::replay::snapshot(&run) {
        assert!(
            !String::from_utf8_lossy(&content).contains("ultramarine"),
            "the truth is in {}",
            path.display()
        );
    }
    assert!(results(&run)[0]["score"].is_null());
    let report = other.gaia(&["report", "last"]).await;
    assert_eq!(report.code, 0, "{report:#?}");
}
