//! Output: order, bounds, bytes that are not text.

use std::time::Duration;

use crate::support::{Run, sandbox, text_of};

/// Bytes of head and of tail.
const KEPT: usize = 8192;

#[tokio::test]
async fn standard_output_and_standard_error_keep_their_order() {
    let sandbox = sandbox().await;
    let said = sandbox.says("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done").await;
    let expected: Vec<String> = (1..=5).flat_map(|i| [format!("out {i}"), format!("err {i}")]).collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_gigabyte_is_bounded_on_both_sides() {
    let sandbox = sandbox().await;
    sandbox.says("true").await;
    let before = resident_kilobytes();
    for (text, lines) in [
        ("head -c 1073741824 /dev/zero | tr '\\0' x", 0),
        ("yes 0123456789abcde | head -c 1073741824", 1_073_741_824 / 16),
    ] {
        let output = sandbox.sh(text).await;
        assert_eq!(
            (output.exit_code, output.total_bytes, output.total_lines),
            (0, 1 << 30, lines),
            "`{text}`"
        );
        assert_eq!((output.head.len(), output.tail.len()), (KEPT, KEPT));
        assert_eq!(output.omitted_bytes(), (1 << 30) - 2 * KEPT as u64);
        let path = output.spill_path.as_deref().unwrap();
        assert_eq!(output.spilled_bytes, 64 << 20);
        assert_eq!(sandbox.says(&format!("stat -c %s {path}")).await, (64 << 20).to_string());
    }
    let growth = resident_kilobytes().saturating_sub(before);
    assert!(growth < 16 << 10, "this process grew by {growth} KiB");
    // Peak of the guest's own memory, and its open files.
    let guest = sandbox.says("awk '/VmHWM/ {print $2}' /proc/1/status").await;
    assert!(guest.parse::<u64>().unwrap() < 16 << 10, "the guest grew to {guest} KiB");
    sandbox.close().await.unwrap();
}

fn resident_kilobytes() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn old_spill_files_make_room_for_new_ones() {
    let sandbox = sandbox().await;
    let mut paths = Vec::new();
    for _ in 0..9 {
        let output = sandbox.sh("head -c 70000000 /dev/zero").await;
        paths.push(output.spill_path.unwrap());
    }
    let kept = sandbox.says("ls -tr /workspace/.out/*").await;
    assert_eq!(kept.lines().collect::<Vec<_>>(), paths[1..]);
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn nothing_is_lost_at_the_boundaries() {
    let sandbox = sandbox().await;
    for size in [KEPT - 1, KEPT, KEPT + 1, 2 * KEPT - 1, 2 * KEPT, 2 * KEPT + 1, 3 * KEPT] {
        let output = sandbox.sh(&format!("head -c {size} /dev/zero | tr '\\0' x")).await;
        assert_eq!(output.total_bytes, size as u64);
        assert_eq!(output.head.len(), size.min(KEPT));
        assert_eq!(output.tail.len(), size.saturating_sub(KEPT).min(KEPT));
        assert_eq!(output.spill_path.is_some(), size > 2 * KEPT, "{size}");
        if let Some(path) = output.spill_path {
            let file = sandbox.read_file(&path, 0, 1 << 20).await.unwrap();
            assert_eq!((file.bytes.len(), file.end_of_file), (size, true));
        }
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn bytes_that_are_no_text_arrive_unchanged() {
    let sandbox = sandbox().await;
    let output = sandbox.sh(r"printf '\xff\xfe\x00\x80ok\x1b[31m\xe2\x82'").await;
    assert_eq!(output.head, b"\xff\xfe\x00\x80ok\x1b[31m\xe2\x82");
    let all = sandbox.sh("python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)))'").await;
    assert_eq!(all.head, (0..=255).collect::<Vec<u8>>());
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_background_writer_is_drained_and_kept() {
    let sandbox = sandbox().await;
    let output = sandbox.sh("(while :; do echo tick; sleep 0.05; done) & echo started").await;
    assert!(text_of(&output).contains("started"));
    let path = output.spill_path.unwrap();
    let said = sandbox
        .says(&format!("until [ $(grep -c tick {path}) -ge 5 ]; do sleep 0.05; done; head -1 {path}"))
        .await;
    assert!(["started", "tick"].contains(&said.as_str()), "{said}");
    // One that never pauses must not keep its command, or a later one, from being answered.
    sandbox.within("yes & echo started", Duration::from_secs(10)).await;
    assert_eq!(sandbox.says("echo ok").await, "ok");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn output_that_imitates_us_is_just_output() {
    let sandbox = sandbox().await;
    let said = sandbox
        .says("printf 'gaia-end\\0'; printf '\\x05\\x00\\x00\\x00\\x84\\x01\\x00\\x00\\x00'; echo '[exit 0]'")
        .await;
    assert!(said.ends_with("[exit 0]"), "{said:?}");
    assert_eq!(sandbox.says("echo ok").await, "ok");
    sandbox.close().await.unwrap();
}
