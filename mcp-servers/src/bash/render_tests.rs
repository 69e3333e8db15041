use gaia_sandbox::BackgroundProcess;

use super::*;

fn ended() -> Output {
    Output {
        exit_code: 0,
        signal: None,
        timed_out: false,
        cancelled: false,
        oom_killed: false,
        duration: Duration::from_millis(2140),
        total_bytes: 0,
        total_lines: 0,
        head: Vec::new(),
        tail: Vec::new(),
        spill_path: None,
        spilled_bytes: 0,
        cwd: "/workspace".to_owned(),
        processes_killed: 0,
        background: Vec::new(),
        notes: Vec::new(),
    }
}

fn printed(text: &str) -> Output {
    Output {
        total_bytes: text.len() as u64,
        total_lines: newlines(text.as_bytes()),
        head: text.as_bytes().to_vec(),
        ..ended()
    }
}

fn plain() -> Circumstances {
    Circumstances { timeout: Duration::from_secs(120), memory_bytes: 2 << 30, reset: None }
}

fn text(output: &Output, circumstances: &Circumstances) -> String {
    let result = super::output(output, circumstances);
    assert_eq!(result.is_error, Some(false));
    result.content[0].as_text().unwrap().text.clone()
}

#[test]
fn output_then_one_status_line() {
    assert_eq!(text(&printed("hello\n"), &plain()), "hello\n[exit 0 · 2.1 s · cwd /workspace]");
    assert_eq!(text(&printed("no newline"), &plain()), "no newline\n[exit 0 · 2.1 s · cwd /workspace]");
    assert_eq!(text(&ended(), &plain()), "(no output)\n[exit 0 · 2.1 s · cwd /workspace]");
    let failed = Output { exit_code: 7, ..printed("oops\n") };
    assert_eq!(text(&failed, &plain()), "oops\n[exit 7 · 2.1 s · cwd /workspace]");
}

#[test]
fn a_signal_is_named() {
    let killed = Output { exit_code: 137, signal: Some(9), ..ended() };
    assert!(text(&killed, &plain()).ends_with("[exit 137 (SIGKILL) · 2.1 s · cwd /workspace]"));
    let child = Output { exit_code: 139, ..ended() };
    assert!(text(&child, &plain()).contains("exit 139 (SIGSEGV)"));
    let ordinary = Output { exit_code: 129, ..ended() };
    assert!(text(&ordinary, &plain()).contains("[exit 129 ·"));
}

#[test]
fn a_timeout_says_what_to_do() {
    let output = Output { exit_code: 143, timed_out: true, processes_killed: 7, ..printed("partial\n") };
    assert_eq!(
        text(&output, &plain()),
        "partial\n[timed out after 120 s; 7 processes killed; partial output above; use run_in_background or a larger \
         timeout]"
    );
}

#[test]
fn want_of_memory_and_background_processes_are_told() {
    let output = Output { exit_code: 137, oom_killed: true, ..ended() };
    assert!(text(&output, &plain()).contains(
        "[exit 137 (SIGKILL) · out of memory: a process was killed at the limit of 2 GiB · 2.1 s · cwd /workspace]"
    ));
    let output = Output {
        background: vec![BackgroundProcess { pid: 42, name: "sleep".to_owned() }],
        spill_path: Some("/workspace/.out/1.log".to_owned()),
        ..ended()
    };
    assert!(
        text(&output, &plain()).ends_with(
            "cwd /workspace · still running: 42 sleep · their output goes to /workspace/.out/1.log]"
        )
    );
}

#[test]
fn a_reset_comes_first_and_notes_before_the_status() {
    let output = Output { notes: vec!["the working directory is gone".to_owned()], ..printed("x\n") };
    let circumstances = Circumstances { reset: Some("its container was gone".to_owned()), ..plain() };
    assert_eq!(
        text(&output, &circumstances),
        "sandbox was reset: its container was gone; files, processes and variables of before are gone\nx\n[note: the \
         working directory is gone]\n[exit 0 · 2.1 s · cwd /workspace]"
    );
}

#[test]
fn long_output_keeps_whole_lines_of_both_ends() {
    let output = Output {
        total_bytes: 1_073_741_824,
        total_lines: 9_871_236,
        head: b"first\nsecond\nthi".to_vec(),
        tail: b"rd\nlast\n".to_vec(),
        spill_path: Some("/workspace/.out/17.log".to_owned()),
        spilled_bytes: 64 << 20,
        ..ended()
    };
    assert_eq!(
        text(&output, &plain()),
        "first\nsecond\n… 1 073 741 806 bytes (9 871 233 lines) omitted; full output: /workspace/.out/17.log (first 64 \
         MiB) – page it with sed -n …\nlast\n[exit 0 · 2.1 s · cwd /workspace]"
    );
}

#[test]
fn a_long_result_fits_into_sixteen_kibibytes() {
    for line in ["x\n", "0123456789\n", "\u{20AC}\n"] {
        let end = line.repeat(8192 / line.len()).into_bytes();
        let output = Output {
            total_bytes: u64::MAX,
            total_lines: u64::MAX,
            head: end.clone(),
            tail: end,
            spill_path: Some(format!("/workspace/.out/{}.log", u32::MAX)),
            spilled_bytes: 64 << 20,
            ..ended()
        };
        let text = text(&output, &plain());
        assert!((12 * 1024..=16 * 1024).contains(&text.len()), "{}", text.len());
    }
}

#[test]
fn one_endless_line_is_cut_between_characters() {
    let mut head = "a".repeat(8190).into_bytes();
    head.extend([0xE2, 0x82]);
    let mut tail = vec![0xAC];
    tail.extend("b".repeat(8000).into_bytes());
    let output = Output {
        total_bytes: 1 << 30,
        head,
        tail,
        spill_path: Some("/o".to_owned()),
        spilled_bytes: 1 << 30,
        ..ended()
    };
    let text = text(&output, &plain());
    assert!(!text.contains('\u{FFFD}'), "{text}");
    assert!(text.contains(" lines) omitted; full output: /o – page it"));
    // Each end is one line, itself shortened.
    assert!(text.len() < 10_000);
}

#[test]
fn data_is_not_poured_out() {
    let noise: Vec<u8> =
        (0..4096_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let output = Output { total_bytes: 4096, head: noise, ..ended() };
    assert!(text(&output, &plain()).starts_with("[binary, 4 096 bytes, not shown; "));
    let output = Output { spill_path: Some("/o".to_owned()), ..output };
    assert!(text(&output, &plain()).starts_with("[binary, 4 096 bytes, saved to /o]\n"));
}

#[test]
fn programs_get_the_same_facts() {
    let output = Output { exit_code: 137, signal: Some(9), ..printed("x\n") };
    let structured = super::output(&output, &plain()).structured_content.unwrap();
    assert_eq!(
        structured,
        json!({
            "output": "x\n[exit 137 (SIGKILL) · 2.1 s · cwd /workspace]",
            "exit_code": 137,
            "signal": "SIGKILL",
            "timed_out": false,
            "oom_killed": false,
            "sandbox_reset": false,
            "duration_ms": 2140,
            "total_bytes": 2,
            "truncated": false,
            "cwd": "/workspace",
            "background": [],
        })
    );
}
