//! Runs as `gaia run` leaves them, written by hand: of any size, cut short, or full of what hostile tools answer.

use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

/// Thoughts, a command and the beginning of its output.
const WORK: [(&str, &str, &str); 4] = [
    (
        "The question names a picture, but what I was given is a sheet. First I should look at what there is.",
        "ls -la /shared_files\nfile /shared_files/*",
        "total 48\n-rw-r--r-- 1 root root 41210 Nov  2 09:00 river.xlsx\n/shared_files/river.xlsx: Microsoft Excel 2007+\n",
    ),
    (
        "Each row is one crossing. The last one by date is what is asked for, so I sort by the date and not by the row.",
        "python3 - <<'EOF'\nimport openpyxl\nsheet = openpyxl.load_workbook('/shared_files/river.xlsx').active\nfor row in sheet.iter_rows(values_only=True):\n    print(*row)\nEOF",
        "2026-04-30 horse 3\n2026-05-01 zebra 17\n2026-04-28 wildebeest 240\n",
    ),
    (
        "Two sheets could be hidden. I check before I trust the first.",
        "python3 -c \"import openpyxl; print(openpyxl.load_workbook('/shared_files/river.xlsx').sheetnames)\"",
        "['crossings']\n",
    ),
    (
        "One number looks odd; I look at the cell itself.",
        "python3 /workspace/cell.py --sheet crossings --cell C7",
        "Traceback (most recent call last):\n  File \"/workspace/cell.py\", line 3, in <module>\nModuleNotFoundError: No module named 'xlrd'\n",
    ),
];

/// A run on the disk that can be added to.
#[derive(Debug)]
pub struct MadeRun {
    pub path: PathBuf,
    pub id: String,
    tasks: Vec<(String, u8)>,
    clock: OffsetDateTime,
}

/// Of a truth that a test looks for where it must not be.
pub const TRUTH: &str = "seventeen zebras";

/// A red dot.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR42mP4z8CABzGMSjNgCRYAt8pjnQuW8k0AAAAASUVORK5CYII=";

impl MadeRun {
    /// A run without anything in it yet.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(runs: &Path, id: &str, tasks: &[(&str, u8)]) -> anyhow::Result<Self> {
        let path = runs.join(id);
        fs_err::create_dir_all(path.join("samples"))?;
        fs_err::write(path.join("lock"), "")?;
        let clock = OffsetDateTime::parse("2026-11-02T09:00:00Z", &Rfc3339)?;
        let tasks = tasks.iter().map(|(task, level)| ((*task).to_owned(), *level)).collect();
        let run = Self { path, id: id.to_owned(), tasks, clock };
        run.write_record(None)?;
        Ok(run)
    }

    fn write_record(&self, ended: Option<&str>) -> anyhow::Result<()> {
        let samples = self.tasks.iter().map(|(task, level)| json!({"task_id": task, "level": level}));
        let record = json!({
            "format_version": 1, "id": self.id, "program_version": "0.1.0", "rehearsal": false,
            "model": "some-model", "strategy": {"name": "react"}, "started": "2026-11-02T09:00:00Z", "ended": ended,
            "config": {"agent": {"max_steps": 100}}, "config_path": null, "config_base": ".",
            "dataset": {"name": "made", "path": "made", "split": "validation", "fingerprint": "sha256:0",
                "has_truth": true, "samples": samples.collect::<Vec<_>>()},
            "epochs": 1, "tools": ["bash/bash", "submit/submit"],
            "host": {"os": "linux", "architecture": "x86_64", "cpus": 2, "docker_version": null},
            "sessions": [], "totals": null,
        });
        Ok(fs_err::write(self.path.join("run.json"), record.to_string())?)
    }

    /// As a run that came to its end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end(&self) -> anyhow::Result<()> {
        self.write_record(Some("2026-11-02T10:30:00Z"))
    }

    /// The folder of a sample.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn sample(&self, task: &str) -> anyhow::Result<PathBuf> {
        let folder = self.path.join("samples").join(task).join("1");
        fs_err::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The next lines of a log, each a while after the one before.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn log(&mut self, task: &str, events: &[Value]) -> anyhow::Result<()> {
        use std::io::Write;
        let path = self.sample(task)?.join("events.jsonl");
        let file = fs_err::OpenOptions::new().append(true).create(true).open(path)?;
        let mut file = std::io::BufWriter::new(file);
        for event in events {
            self.clock += Duration::milliseconds(event["duration_ms"].as_i64().unwrap_or(5));
            let mut line = json!({"time": self.clock.format(&Rfc3339)?});
            for (name, value) in event.as_object().context("an event is an object")? {
                line[name] = value.clone();
            }
            writeln!(file, "{line}")?;
        }
        Ok(file.flush()?)
    }

    /// The outcome of a sample; `None` for one that has no answer.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn result(&self, task: &str, answer: Option<&str>, truth: &str, turns: usize) -> anyhow::Result<()> {
        let level = self.tasks.iter().find(|(found, _)| found == task).map_or(1, |(_, level)| *level);
        let is_right = answer == Some(truth);
        let result = json!({
            "task_id": task, "epoch": 1, "level": level, "status": if answer.is_some() { "answered" } else { "no_answer" },
            "answer": answer, "raw_answer": answer, "steps": turns, "tool_calls": turns,
            "usage": {"input_tokens": 900 * turns, "output_tokens": 60 * turns, "cached_tokens": 0, "reasoning_tokens": 0},
            "cost_usd": 0.002 * turns as f64,
            "timing": {"wall": turns as f64 * 2.1, "model": turns as f64 * 1.2, "tool": turns as f64 * 0.7, "sandbox": 0.5, "overhead": 0.1},
            "score": {"correct": is_right, "kind": "string", "truth": truth,
                "reason": if is_right { "equal after normalisation".to_owned() } else { format!("the answer is not `{truth}`") }},
            "error": null,
        });
        Ok(fs_err::write(self.sample(task)?.join("result.json"), result.to_string())?)
    }

    /// A kept file of a sample, by the name that an event has of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(&self, task: &str, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let folder = self.sample(task)?.join("files");
        fs_err::create_dir_all(&folder)?;
        Ok(fs_err::write(folder.join(name), content)?)
    }
}

/// The first event of an attempt.
pub fn started(attempt: u32, question: &str) -> Value {
    json!({"type": "started", "attempt": attempt, "tools": ["bash/bash", "submit/submit"], "messages": [
        {"role": "system", "content": "You are a general AI assistant. I will ask you a question."},
        {"role": "user", "content": [{"type": "text", "text": question}]},
    ]})
}

/// A turn with one call of `bash`.
pub fn turn(step: usize, thoughts: &str, command: &str, output: &str) -> Vec<Value> {
    turn_with(step, thoughts, command, json!([{"type": "text", "text": output}]), step % 8 == 4)
}

/// The same with any content.
pub fn turn_with(step: usize, thoughts: &str, command: &str, content: Value, is_error: bool) -> Vec<Value> {
    let id = format!("call_{step}");
    let usage =
        json!({"input_tokens": 900, "output_tokens": 60, "cached_tokens": 300, "reasoning_tokens": 20});
    let arguments = json!({"command": command});
    vec![
        json!({"type": "model_call", "step": step, "request": "f"}),
        json!({"type": "model_reply", "step": step, "content": format!("Step {step}: I look further."),
            "reasoning": thoughts, "tool_calls": [{"id": id, "name": "bash", "arguments": arguments.to_string()}],
            "finish_reason": "tool_calls", "usage": usage, "cost_usd": 0.002, "duration_ms": 900 + 37 * (step % 20), "queued_ms": 100}),
        json!({"type": "tool_started", "step": step, "call_id": id, "tool": "bash/bash", "arguments": arguments}),
        json!({"type": "tool_result", "step": step, "call_id": id, "tool": "bash/bash", "content": content,
            "is_error": is_error, "duration_ms": 300 + 83 * (step % 11)}),
    ]
}

/// The turn that hands in the answer, and the end.
pub fn ending(step: usize, answer: &str) -> Vec<Value> {
    let usage = json!({"input_tokens": 900, "output_tokens": 12, "cached_tokens": 0, "reasoning_tokens": 0});
    let arguments = json!({"answer": answer});
    vec![
        json!({"type": "model_call", "step": step}),
        json!({"type": "model_reply", "step": step, "content": null, "finish_reason": "tool_calls", "usage": usage,
            "tool_calls": [{"id": "last", "name": "submit", "arguments": arguments.to_string()}], "duration_ms": 700}),
        json!({"type": "tool_started", "step": step, "call_id": "last", "tool": "submit/submit", "arguments": arguments}),
        json!({"type": "tool_result", "step": step, "call_id": "last", "tool": "submit/submit",
            "content": [{"type": "text", "text": format!("answer taken: {answer}")}], "is_error": false,
            "structured": {"answer": answer}, "duration_ms": 3}),
        json!({"type": "finished", "outcome": {"status": "answered", "stop": "answer_tool", "answer": answer,
            "raw_answer": answer, "steps": step, "tool_calls": step, "usage": usage, "cost_usd": null,
            "timing": {"wall": 1.0, "model": 0.5, "tool": 0.5}, "error": null}}),
    ]
}

/// A finished run of the size of GAIA's validation split: every third answer is wrong, every tenth missing.
///
/// # Errors
/// When it cannot be written.
pub fn whole(runs: &Path, samples: usize, turns: usize, output_bytes: usize) -> anyhow::Result<MadeRun> {
    let ids: Vec<String> =
        (0..samples).map(|number| format!("{number:08x}-1111-4222-8333-{:012x}", number * 7919)).collect();
    let tasks: Vec<(&str, u8)> =
        ids.iter().enumerate().map(|(index, id)| (id.as_str(), [1, 2, 2, 3, 1][index % 5])).collect();
    let mut run = MadeRun::new(runs, "20261102T090000Z-whole", &tasks)?;
    let line = "the quick brown fox jumps over the lazy dog 0123456789\n";
    for (index, task) in ids.iter().enumerate() {
        let question =
            format!("Question {index}: which of the animals in the picture crossed the river last?");
        let mut events = vec![started(1, &question)];
        for step in 1..turns {
            let (thoughts, command, output) = WORK[(step - 1) % WORK.len()];
            let rest = line.repeat(output_bytes.saturating_sub(output.len()).div_ceil(line.len()));
            let output = format!("{output}{rest}[exit 0 · 0.3 s · cwd /workspace]");
            events.extend(turn(step, thoughts, command, &output));
        }
        let answer = if index % 3 == 0 { "three horses" } else { TRUTH };
        if index % 10 == 9 {
            events.push(json!({"type": "limit_reached", "step": turns, "reason": "step_limit"}));
            run.log(task, &events)?;
            run.result(task, None, TRUTH, turns)?;
        } else {
            events.extend(ending(turns, answer));
            run.log(task, &events)?;
            run.result(task, Some(answer), TRUTH, turns)?;
        }
    }
    run.end()?;
    Ok(run)
}

/// A run that was killed: a lost attempt, a torn line, a sample under way, others not begun, a damaged outcome.
///
/// # Errors
/// When it cannot be written.
pub fn partial(runs: &Path) -> anyhow::Result<MadeRun> {
    let tasks = [("done", 1), ("torn", 1), ("waiting", 2), ("damaged", 3), ("roles", 2)];
    let mut run = MadeRun::new(runs, "20261103T090000Z-partial", &tasks)?;
    let mut events = vec![started(1, "What was lost?")];
    events.extend(turn(1, "lost thoughts", "true", "of the first attempt"));
    events.push(started(2, "What was lost?"));
    events.extend(turn(1, "new thoughts", "true", "of the second attempt"));
    events.extend(ending(2, TRUTH));
    run.log("done", &events)?;
    run.result("done", Some(TRUTH), TRUTH, 2)?;

    let mut events = vec![started(1, "What is torn?")];
    events.extend(turn(1, "", "true", "whole"));
    events.push(json!({"type": "of_a_later_gaia", "step": 1, "what": "nobody knows"}));
    events.push(json!({"type": "model_call", "step": 2}));
    run.log("torn", &events)?;
    let path = run.sample("torn")?.join("events.jsonl");
    let mut log = fs_err::read(&path)?;
    log.extend_from_slice(b"this is no JSON\n{\"time\":\"2026-11-0");
    fs_err::write(path, log)?;

    run.log("damaged", &[started(1, "What is damaged?")])?;
    fs_err::write(run.sample("damaged")?.join("result.json"), "{")?;

    let mut events = vec![started(1, "Who is right?")];
    for branch in ["run 1", "run 2"] {
        let begin = json!({"type": "branch_started", "tools": [], "messages": []});
        for mut event in std::iter::once(begin).chain(turn(1, "as a role", "true", "seen by a role")) {
            event["branch"] = branch.into();
            events.push(event);
        }
    }
    events.push(json!({"type": "decided", "reason": "2 of 2 runs agree", "answer": "7",
        "candidates": [{"branch": "run 1", "answer": "7"}, {"branch": "run 2", "answer": "7"}]}));
    run.log("roles", &events)?;
    Ok(run)
}

/// A run whose question, model and tools try everything. Whatever of it acts sets `window.hacked`.
///
/// # Errors
/// When it cannot be written.
pub fn hostile(runs: &Path) -> anyhow::Result<MadeRun> {
    let script = "<script>window.hacked=1</script><img src=x onerror=\"window.hacked=1\"></pre></main>";
    let texts = [
        script.to_owned(),
        format!("\"'><svg onload=window.hacked=1>{script}"),
        "x".repeat(1 << 20),
        "\u{202e}gnp.exe \u{2066}\u{2067}שלום עולם مرحبا بالعالم\u{200f}".to_owned(),
        "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\x00nul\x08\r\nnext".to_owned(),
        "a\u{0301}".repeat(3_000) + "\u{1F468}\u{200d}\u{1F469}",
        "</script></style><style>*{display:none}</style><meta http-equiv=refresh content=0;url=//evil>"
            .to_owned(),
        "\n".repeat(20_000),
    ];
    let tasks = [(script, 1), ("../../etc", 2), ("bytes", 3)];
    let mut run = MadeRun::new(runs, "20261104T090000Z-hostile", &tasks)?;
    // The names of folders are what gaia makes of such ids.
    let folder = |task: &str| -> String {
        let named = task.bytes().enumerate().map(|(place, byte)| match byte {
            b'-' | b'_' => char::from(byte).to_string(),
            b'.' if place > 0 => ".".to_owned(),
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        });
        named.collect()
    };
    for (index, (task, _)) in tasks.iter().enumerate() {
        let folder = folder(task);
        let mut events = vec![started(1, &texts[index])];
        for (step, text) in (1..).zip(&texts) {
            let content = json!([{"type": "text", "text": text}, {"type": "image", "media_type": "image/png", "data": "file:dot.png"},
                {"type": "image", "media_type": "image/svg+xml", "data": "file:bad.svg"}]);
            events.extend(turn_with(step, text, text, content, step % 2 == 0));
            events.push(json!({"type": "server_notice", "server": text, "level": "warning", "text": text}));
        }
        events.extend(ending(texts.len() + 1, script));
        run.log(&folder, &events)?;
        run.result(&folder, Some(script), script, texts.len() + 1)?;
        run.file(&folder, "dot.png", &STANDARD.decode(PNG)?)?;
        run.file(&folder, "bad.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked=1'/>")?;
    }
    // Bytes that are no UTF-8, within a line.
    let path = run.sample("bytes")?.join("events.jsonl");
    let mut log = fs_err::read(&path)?;
    log.extend_from_slice(b"{\"time\":\"2026-11-04T11:00:00Z\",\"type\":\"prompted\",\"step\":9,\"text\":\"broken \xff\xfe bytes\"}\n");
    fs_err::write(path, log)?;
    run.end()?;
    Ok(run)
}
