//! Runs on the disk that never ran: what pages and reports are made of, in the numbers and with the contents that a test
//! wants. Written by the format of `run.json`, `result.json` and `events.jsonl`, not by the code that writes them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Samples of a run that looks like one of the validation split: how many of each level, and how good it is.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub levels: [usize; 3],
    /// Share of right answers at each level.
    pub skill: [f64; 3],
    /// Another seed, another run.
    pub seed: u64,
    /// Turns of a sample, at most.
    pub turns: usize,
}

/// The validation split.
pub const VALIDATION: [usize; 3] = [53, 86, 26];

/// Tools with the seconds that a call takes and the share of calls that fail.
const TOOLS: [(&str, f64, f64); 5] = [
    ("bash/bash", 3.0, 0.08),
    ("fetch/fetch", 2.0, 0.12),
    ("search/brave_web_search", 0.9, 0.03),
    ("browser/browser_navigate", 6.5, 0.2),
    ("submit/submit", 0.1, 0.02),
];

/// Answers that are wrong, with their truths: by format, nearly, and altogether.
const WRONG: [(&str, &str); 6] = [
    ("17 km", "17"),
    ("Lima, Quito", "Quito, Lima"),
    ("seventeen", "17"),
    ("1998", "1999"),
    ("Guillermo del Torro", "Guillermo del Toro"),
    ("a castle", "Quito"),
];

/// A run of a shape, under `runs`.
///
/// # Errors
/// When it cannot be written.
pub fn store_shaped(runs: &Path, id: &str, shape: Shape) -> std::io::Result<PathBuf> {
    let tasks: Vec<(String, u8)> = (1..=3u8)
        .zip(shape.levels)
        .flat_map(|(level, count)| {
            (0..count).map(move |number| (format!("{level:08x}-{number:04x}-5748-9fbf-51eaa9b7fba5"), level))
        })
        .collect();
    let run = store_record(runs, id, &tasks, |_| ())?;
    for (task_id, level) in &tasks {
        store_one(&run, task_id, *level, shape)?;
    }
    Ok(run)
}

fn store_one(run: &Path, task_id: &str, level: u8, shape: Shape) -> std::io::Result<()> {
    let chance = |what: &str| {
        let digest = Sha256::digest(format!("{}/{task_id}/{what}", shape.seed));
        f64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])) / f64::from(u32::MAX)
    };
    let pick = |what: &str, count: usize| ((chance(what) * count as f64) as usize).min(count - 1);
    let is_right = chance("right") < shape.skill[usize::from(level) - 1];
    let turns = 2 + pick("turns", shape.turns.saturating_sub(2).max(1)) * usize::from(level) / 3;
    let mut events = vec![started(&format!("What is the question of {task_id}?"))];
    let (mut tool_seconds, mut model_seconds) = (0.0, 0.0);
    for step in 1..=turns {
        let (tool, seconds, failing) =
            if step == turns { TOOLS[4] } else { TOOLS[pick(&format!("tool{step}"), 4)] };
        let seconds = seconds * (0.4 + chance(&format!("seconds{step}")));
        tool_seconds += seconds;
        model_seconds += 4.0;
        events.extend(turn(
            step,
            tool,
            chance(&format!("fails{step}")) < failing,
            seconds,
            "total 8\ndrwxr-xr-x 2 root root 4096",
        ));
    }
    let end = if is_right { 0.0 } else { chance("end") };
    let (status, answer, truth, error) = match end {
        _ if is_right => ("answered", json!("Quito"), "Quito", Value::Null),
        end if end < 0.12 => (
            "error",
            Value::Null,
            "17",
            json!({ "kind": "server", "message": "MCP server `browser` died twice" }),
        ),
        end if end < 0.25 => ("no_answer", Value::Null, "17", Value::Null),
        _ => {
            let (answer, truth) = WRONG[pick("wrong", WRONG.len())];
            ("answered", json!(answer), truth, Value::Null)
        }
    };
    if status == "no_answer" || chance("limit") < 0.1 {
        events.push(json!({ "type": "limit_reached", "step": turns, "reason": "step_limit" }));
    }
    let tokens = (turns * 5200) as u64;
    let mut result = result(task_id, level, status, &answer, truth);
    result["steps"] = turns.into();
    result["tool_calls"] = turns.into();
    result["usage"] = json!({ "input_tokens": tokens, "output_tokens": tokens / 14, "cached_tokens": tokens / 2, "reasoning_tokens": tokens / 30 });
    result["cost_usd"] = json!(tokens as f64 * 1.6e-6);
    result["timing"] = json!({ "wall": model_seconds + tool_seconds + 1.3, "model": model_seconds, "tool": tool_seconds, "sandbox": 1.1, "overhead": 0.2 });
    result["error"] = error;
    store_sample(run, task_id, &events, Some(&result))
}

/// The first event of an attempt.
pub fn started(question: &str) -> Value {
    json!({ "type": "started", "attempt": 1, "tools": ["bash", "submit"], "messages": [
        { "role": "system", "content": "You answer questions." },
        { "role": "user", "content": [{ "type": "text", "text": question }] },
    ] })
}

/// A model turn with one call, and its result.
pub fn turn(step: usize, tool: &str, is_error: bool, seconds: f64, output: &str) -> [Value; 4] {
    let call_id = format!("call-{step}");
    let arguments = json!({ "command": "ls -la /shared_files" });
    [
        json!({ "type": "model_call", "step": step, "request": "0" }),
        json!({ "type": "model_reply", "step": step, "content": "Let me look.", "reasoning": "The file may hold it.", "finish_reason": "tool_calls",
            "tool_calls": [{ "id": call_id, "name": tool.split('/').next_back(), "arguments": arguments.to_string() }],
            "usage": { "input_tokens": 5200, "output_tokens": 370, "cached_tokens": 2600, "reasoning_tokens": 170 }, "cost_usd": 0.008, "duration_ms": 4000 }),
        json!({ "type": "tool_started", "step": step, "call_id": call_id, "tool": tool, "arguments": arguments }),
        json!({ "type": "tool_result", "step": step, "call_id": call_id, "tool": tool, "content": [{ "type": "text", "text": output }],
            "is_error": is_error, "duration_ms": (seconds * 1000.0) as u64 }),
    ]
}

/// A `result.json`, right when answer and truth are the same.
pub fn result(task_id: &str, level: u8, status: &str, answer: &Value, truth: &str) -> Value {
    json!({
        "task_id": task_id, "epoch": 1, "level": level, "status": status, "answer": answer, "raw_answer": answer, "steps": 3, "tool_calls": 2,
        "usage": { "input_tokens": 1000, "output_tokens": 100, "cached_tokens": 0, "reasoning_tokens": 0 }, "cost_usd": 0.01,
        "timing": { "wall": 5.0, "model": 3.0, "tool": 1.0, "sandbox": 0.8, "overhead": 0.2 },
        "score": { "correct": answer == truth, "kind": "string", "reason": "compared as text", "truth": truth },
        "error": null,
    })
}

/// The folder of a run with its `run.json`, which a test may change.
///
/// # Errors
/// When it cannot be written.
pub fn store_record(
    runs: &Path,
    id: &str,
    tasks: &[(String, u8)],
    change: impl FnOnce(&mut Value),
) -> std::io::Result<PathBuf> {
    let needs = |level: u8| match level {
        1 => json!({ "tools": ["web"], "steps": 4 }),
        2 => json!({ "tools": ["web", "coding"], "steps": 8, "attachment": "xlsx" }),
        _ => json!({ "tools": ["multimodal", "files"], "steps": 14, "attachment": "png" }),
    };
    let samples: Vec<Value> =
        tasks.iter().map(|(task, level)| json!({ "task_id": task, "level": level })).collect();
    let needs: serde_json::Map<String, Value> =
        tasks.iter().map(|(task, level)| (task.clone(), needs(*level))).collect();
    let mut record = json!({
        "format_version": 1, "id": id, "program_version": "0.1.0", "rehearsal": false, "model": "example-model",
        "strategy": { "name": "react" }, "started": "2026-11-30T10:15:02Z", "ended": "2026-11-30T12:01:40Z",
        "config": { "model": { "name": "example-model" }, "agent": { "max_steps": 50 }, "run": { "concurrency": 10 } },
        "config_path": null, "config_base": ".",
        "dataset": { "name": "GAIA", "path": "GAIA", "split": "validation", "fingerprint": "sha256:4f2a", "has_truth": true,
            "samples": samples, "unselected": [], "needs": needs },
        "epochs": 1, "prompt": "sha256:77", "tools": TOOLS.map(|(tool, ..)| tool),
        "host": { "os": "Debian GNU/Linux 12 (bookworm)", "architecture": "x86_64", "cpus": 8, "docker_version": null },
        "sessions": [], "totals": null,
    });
    change(&mut record);
    let run = runs.join(id);
    fs_err::create_dir_all(run.join("samples"))?;
    fs_err::write(run.join("run.json"), record.to_string())?;
    Ok(run)
}

/// One sample of a run.
///
/// # Errors
/// When it cannot be written.
pub fn store_sample(
    run: &Path,
    task_id: &str,
    events: &[Value],
    result: Option<&Value>,
) -> std::io::Result<()> {
    let folder = run.join("samples").join(folder_name(task_id)).join("1");
    fs_err::create_dir_all(&folder)?;
    let lines: Vec<String> = events
        .iter()
        .enumerate()
        .map(|(number, event)| {
            let mut event = event.clone();
            event["time"] = format!("2026-11-30T10:{:02}:{:02}Z", number / 60 % 60, number % 60).into();
            format!("{event}\n")
        })
        .collect();
    fs_err::write(folder.join("events.jsonl"), lines.concat())?;
    match result {
        Some(result) => fs_err::write(folder.join("result.json"), result.to_string()),
        None => Ok(()),
    }
}

/// As runs have it: what is no plain letter stands there by its bytes.
fn folder_name(task_id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let letter = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    task_id.bytes().map(letter).collect()
}
