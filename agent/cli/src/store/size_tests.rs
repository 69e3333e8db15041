//! What a whole run weighs on the disk and in memory.

use std::path::Path;
use std::sync::Arc;

use fs_err as fs;
use gaia_agent::message::{Message, Part, ToolCall};
use gaia_agent::{AgentEvent, EventSink, Usage};
use serde_json::json;

use super::{RunDirectory, SampleKey, test_record};

/// GAIA's validation split, at the limit of turns that the presets have.
const SAMPLES: usize = 165;
const TURNS: u32 = 50;

/// As much of an output as a model is shown.
const OUTPUT_BYTES: usize = 16 * 1024;

/// What all of it may take.
const MOST_BYTES: u64 = 200_000_000;

/// What writing it may take of memory, whatever the length of the run; one sample's events are 800 kB.
const MOST_MEMORY_BYTES: u64 = 16_000_000;

/// What commands print: listings, tables of numbers and hashes, code with quotes and tabs, prose with words beyond
/// ASCII. zstd makes a third of it, as it does of real logs.
fn output(dice: &mut fastrand::Rng) -> String {
    const WORDS: [&str; 24] = [
        "the",
        "year",
        "of",
        "publication",
        "Zürich",
        "page",
        "table",
        "figure",
        "result",
        "in",
        "a",
        "paper",
        "volume",
        "author",
        "“quoted”",
        "museum",
        "and",
        "population",
        "river",
        "was",
        "recorded",
        "album",
        "naïve",
        "between",
    ];
    let mut text = String::with_capacity(OUTPUT_BYTES);
    while text.len() < OUTPUT_BYTES {
        match dice.u8(..4) {
            0 => text.push_str(&format!(
                "-rw-r--r-- 1 root root {:>9} 2024-{:02}-{:02} {:02}:{:02} /usr/lib/{}/{:08x}.so\n",
                dice.u32(..90_000_000),
                dice.u8(1..13),
                dice.u8(1..29),
                dice.u8(..24),
                dice.u8(..60),
                WORDS[dice.usize(..WORDS.len())],
                dice.u32(..)
            )),
            1 => text.push_str(&format!(
                "{:.6}\t{:.3}\t\"{:016x}\"\t{}\n",
                dice.f64(),
                dice.f64() * 1e4,
                dice.u64(..),
                dice.i32(-9999..9999)
            )),
            2 => text.push_str(&format!(
                "    if row[\"{}\"] > {}:\n\t\tprint(f\"{{row['{}']}} \\\\n\")\n",
                WORDS[dice.usize(..WORDS.len())],
                dice.u32(..100_000),
                WORDS[dice.usize(..WORDS.len())]
            )),
            _ => {
                for _ in 0..12 {
                    text.push_str(WORDS[dice.usize(..WORDS.len())]);
                    text.push(' ');
                }
                text.push('\n');
            }
        }
    }
    let end = (0..=OUTPUT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.truncate(end);
    text
}

fn text_part(text: String) -> Vec<Part> {
    vec![Part::Text { text }]
}

/// A sample as the loop tells it, turn by turn.
fn play(sink: &dyn EventSink, dice: &mut fastrand::Rng) {
    let messages = vec![
        Message::System { content: "You are a general AI assistant. ".repeat(60) },
        Message::User { content: text_part("Which of them was the first? ".repeat(10)) },
    ];
    sink.emit(AgentEvent::Started {
        attempt: 1,
        tools: vec!["bash/bash".into(), "submit/submit".into()],
        messages,
        offer: sink.keep_offer("[]"),
    });
    for step in 1..=TURNS {
        let call_id = format!("call_{:024x}", dice.u128(..));
        let arguments = json!({ "command": format!("grep -rn {} . | head -{}", dice.u32(..), dice.u8(..)) });
        sink.emit(AgentEvent::ModelCall { step, request: Some(format!("{:064x}", dice.u128(..))) });
        sink.emit(AgentEvent::ModelReply {
            step,
            content: Some(output(dice).chars().take(200).collect()),
            reasoning: Some(output(dice).chars().take(1_500).collect()),
            carried: None,
            tool_calls: vec![ToolCall {
                id: call_id.clone(),
                name: "bash".into(),
                arguments: arguments.to_string(),
            }],
            finish_reason: "tool_calls".into(),
            usage: Usage { input_tokens: 50_000, output_tokens: 400, ..Usage::default() },
            cost_usd: Some(0.01),
            duration_ms: 4_000,
            queued_ms: 0,
        });
        let tool = "bash/bash".to_owned();
        sink.emit(AgentEvent::ToolStarted { step, call_id: call_id.clone(), tool: tool.clone(), arguments });
        sink.emit(AgentEvent::ToolResult {
            step,
            call_id,
            tool,
            content: text_part(output(dice)),
            is_error: false,
            structured: Some(json!({ "exit_code": 0, "duration_ms": 120, "cwd": "/root" })),
            whole: None,
            duration_ms: 120,
        });
    }
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { size(&path) } else { fs::metadata(&path).unwrap().len() }).sum()
}

/// The most that this process ever had in memory.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_run_of_165_samples_with_50_turns_of_16_kilobytes_stays_under_200_megabytes() {
    let ids: Vec<String> = (0..SAMPLES).map(|number| format!("task-{number:03}")).collect();
    let planned: Vec<(&str, u8)> = ids.iter().map(|id| (id.as_str(), 1)).collect();
    let runs = tempfile::tempdir().unwrap();
    let (run, _lock) = RunDirectory::create(runs.path(), &test_record(&planned)).unwrap();
    let mut dice = fastrand::Rng::with_seed(165);

    let sample = output(&mut dice);
    let packed = zstd::encode_all(sample.as_bytes(), 3).unwrap().len();
    let ratio = sample.len() as f64 / packed as f64;
    assert!((2.0..4.5).contains(&ratio), "text that is packed {ratio:.1} times is not like real output");

    let before = peak_memory();
    for id in &ids {
        let sample = run.sample(&SampleKey { task_id: id.clone(), epoch: 1 });
        let log = sample.start_attempt(Arc::default()).unwrap();
        play(&log, &mut dice);
        log.close().unwrap();
    }
    let grown = peak_memory() - before;
    let size = size(run.path());
    let outputs = SAMPLES as u64 * u64::from(TURNS) * OUTPUT_BYTES as u64;
    assert!(size > outputs / 3, "{size} bytes hold not all of {outputs}");
    assert!(size < MOST_BYTES, "{size} bytes");
    assert!(grown < MOST_MEMORY_BYTES, "{grown} bytes of memory");
}
