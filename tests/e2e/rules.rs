//! Rules of the loop that need a server or an attachment of their own, and the map of all rules to their tests.

use std::path::{Path, PathBuf};

use gaia_agent::Attachment;
use gaia_agent::model::Api;
use gaia_agent::tools::TransportSpec;
use gaia_tests::scripted::{Options, Script, turn};
use serde_json::{Value, json};

use crate::support::{QUESTION, Worked, bash_server, settings, stdio_server, submit_server, work, work_on};

fn peer() -> gaia_agent::tools::ServerSpec {
    let mut spec = stdio_server("peer", "gaia-mcp-submit", &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/rules/peer.py");
    if let TransportSpec::Stdio { command, args, .. } = &mut spec.transport {
        *command = "python3".to_owned();
        *args = vec![script.display().to_string()];
    }
    spec
}

fn script(turns: impl IntoIterator<Item = gaia_tests::scripted::Turn>) -> Script {
    Script::new().task(QUESTION, turns)
}

#[tokio::test]
async fn read_only_calls_run_at_the_same_time_and_others_in_order() {
    let both = |tool: &str| turn::call(tool, json!({})).and_call(tool, json!({}));
    let turns = [both("meet"), both("meet_alone"), turn::submit("blue")];
    let worked = work(script(turns), &[peer(), submit_server()], &settings()).await;
    let texts: Vec<String> = worked.results().into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts[..4], ["met", "met", "nobody came", "nobody came"]);
    worked.close().await;
}

#[tokio::test]
async fn a_tool_whose_server_dies_is_an_error_and_the_server_comes_back() {
    let turns = [turn::call("die", json!({})), turn::call("structured", json!({})), turn::submit("blue")];
    let worked = work(script(turns), &[peer(), submit_server()], &settings()).await;
    let results = worked.results();
    assert!(results[0].1, "{results:?}");
    assert!(results[1].0.contains("\"depth\": 17") && !results[1].1, "{results:?}");
    assert_eq!(worked.answer(), Some("blue"));
    worked.close().await;
}

#[tokio::test]
async fn an_answer_that_the_answer_tool_refuses_ends_nothing() {
    let mut settings = settings();
    settings.answer_tool = "peer/hand_in".to_owned();
    let turns = ["red", "blue"].map(|answer| turn::call("hand_in", json!({ "answer": answer })));
    let worked = work(script(turns), &[peer()], &settings).await;
    assert_eq!((worked.answer(), worked.outcome.steps), (Some("blue"), 2), "{:?}", worked.results());
    worked.close().await;
}

#[tokio::test]
async fn embedded_text_is_text() {
    let turns = [turn::call("embedded", json!({})), turn::submit("blue")];
    let worked = work(script(turns), &[peer(), submit_server()], &settings()).await;
    assert_eq!(worked.results()[0].0, "embedded words");
    worked.close().await;
}

/// The parts of one type in the last request, whatever the API.
fn parts(worked: &Worked, kind: &str) -> Vec<Value> {
    let body = worked.model.requests().pop().unwrap().body;
    let list = if body["messages"].is_array() { &body["messages"] } else { &body["input"] };
    let contents = list.as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
    contents.flatten().filter(|part| part["type"] == kind).cloned().collect()
}

#[tokio::test]
async fn pictures_sound_and_documents_of_tools_reach_models_that_take_them() {
    for (api, picture, sound, document) in [
        (Api::Chat, "image_url", "input_audio", "file"),
        (Api::Responses, "input_image", "input_audio", "input_file"),
    ] {
        let mut takes_all = settings();
        takes_all.accepted_media = ["image/", "audio/", "application/pdf"].map(str::to_owned).to_vec();
        for (settings, expected) in [(takes_all, 1), (settings(), 0)] {
            let turns = [turn::call("show", json!({})), turn::submit("blue")];
            let specs = [peer(), submit_server()];
            let worked =
                work_on(None, script(turns), Options::default(), &specs, &settings, |model| model.api = api)
                    .await;
            for kind in [picture, sound, document] {
                assert_eq!(parts(&worked, kind).len(), expected, "{kind}");
            }
            let text = &worked.results()[0].0;
            assert_eq!(text.matches("use a tool that reads it").count(), 3 * (1 - expected), "{text}");
            worked.close().await;
        }
    }
}

/// A bitmap of two pixels by one, which no provider takes as it is.
const BITMAP: [u8; 62] = {
    let mut file = [0; 62];
    file[0] = b'B';
    file[1] = b'M';
    file[2] = 62;
    file[10] = 54;
    file[14] = 40;
    file[18] = 2;
    file[22] = 1;
    file[26] = 1;
    file[28] = 24;
    file[34] = 8;
    file[54] = 255;
    file[58] = 255;
    file
};

#[tokio::test]
async fn an_attachment_is_named_by_its_path_and_shown_to_models_that_take_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut all = settings();
    all.accepted_media = ["image/", "audio/", "application/pdf"].map(str::to_owned).to_vec();
    for (name, bytes, kind, shown) in [
        ("plot.bmp", BITMAP.as_slice(), "image_url", "data:image/png;base64,"),
        ("talk.mp3", b"ID3\x04 and so on", "input_audio", "mp3"),
        ("paper.pdf", b"%PDF-1.7 nothing", "file", "paper.pdf"),
        ("notes.txt", b"plain words", "file", ""),
    ] {
        let host_path: PathBuf = folder.path().join(name);
        fs_err::write(&host_path, bytes).unwrap();
        for (settings, is_shown) in [(&all, !shown.is_empty()), (&settings(), false)] {
            let sandbox_path = format!("/shared_files/{name}");
            let attachment = Attachment { sandbox_path: sandbox_path.clone(), host_path: host_path.clone() };
            let worked = work_on(
                Some(attachment),
                script([turn::submit("blue")]),
                Options::default(),
                &[submit_server()],
                settings,
                |_| {},
            )
            .await;
            let parts = parts(&worked, kind);
            assert_eq!(parts.len(), usize::from(is_shown), "{name}: {parts:?}");
            assert!(parts.iter().all(|part| part.to_string().contains(shown)), "{name}: {parts:?}");
            let request = worked.model.requests().pop().unwrap().body.to_string();
            assert!(request.contains(&sandbox_path), "{name}: {request}");
            let is_noted = !is_shown && !shown.is_empty();
            assert_eq!(request.contains("read it with a tool"), is_noted, "{name}: {request}");
            worked.close().await;
        }
    }
}

#[tokio::test]
async fn a_name_with_what_a_template_puts_around_it_finds_its_tool() {
    let turns = [turn::bash("echo 17"), turn::submit("17")].map(|mut turn| {
        turn.calls[0].tool = match turn.calls[0].tool.as_str() {
            "bash" => "functions.bash".to_owned(),
            _ => "submit<|channel|>commentary".to_owned(),
        };
        turn
    });
    let worked = work(script(turns), &[bash_server(), submit_server()], &settings()).await;
    assert_eq!((worked.answer(), worked.outcome.steps), (Some("17"), 2), "{:?}", worked.results());
    worked.close().await;
}

/// The tests that a row of the map names: what stands in backticks and has `::` in it.
fn named(row: &str) -> Vec<&str> {
    row.split('`').skip(1).step_by(2).filter(|code| code.contains("::")).collect()
}

/// `module::test` is a test of this binary; `path/of/file.rs::test` one of that file, from the root of the sources.
fn exists(name: &str) -> bool {
    let Some((place, test)) = name.rsplit_once("::") else { return false };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = match place.ends_with(".rs") {
        true => here.join("..").join(place),
        false => here.join(format!("e2e/{place}.rs")),
    };
    let source = fs_err::read_to_string(file).unwrap_or_default();
    let Some(at) = source.find(&format!("fn {test}(")) else { return false };
    // A trial of `agent/core/tests/tools` is listed by name; everything else carries an attribute.
    let before = source[..at].trim_end().trim_end_matches("async").trim_end();
    let is_listed = || source.split("trials![").nth(1).is_some_and(|list| list.contains(test));
    before.ends_with(']') || (place.starts_with("agent/core/tests/tools/") && is_listed())
}

#[test]
fn every_rule_has_its_tests() {
    let map = include_str!("RULES.md");
    let rows: Vec<&str> =
        map.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule")).collect();
    assert!(rows.len() > 45, "{}", rows.len());
    let missing: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            let names = named(row);
            let none = names.is_empty().then(|| format!("no test: {row}"));
            names
                .into_iter()
                .filter(|name| !exists(name))
                .map(|name| format!("no such test: {name}"))
                .chain(none)
        })
        .collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    for number in 1..=11 {
        assert!(rows.iter().any(|row| row.starts_with(&format!("| {number} "))), "no row for rule {number}");
    }
    assert!(
        !exists("rules::no_such_test")
            && !exists("nowhere::every_rule_has_its_tests")
            && !exists("rules::peer")
    );
}
