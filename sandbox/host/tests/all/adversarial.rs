//! One container, many attempts to break it, one after the other. Each must be answered in time, and the next ordinary
//! command must work as if nothing had happened. What the other files test is not repeated here.

use std::time::Duration;

use gaia_sandbox::{Output, Sandbox};

use crate::support::{PLENTY, Run, sandbox, text_of};

const LIMIT: Duration = Duration::from_secs(2);

/// How a case must end.
enum End {
    /// With this exit code, by itself.
    Code(i32),
    /// By the time limit of two seconds.
    Limit,
    /// By itself, with any code.
    Any,
}
use End::{Any, Code, Limit};

const CASES: &[(&str, &str, End)] = &[
    ("endless children", "while :; do (sleep 60 &); done", Limit),
    ("re-parenting bomb that ignores TERM", "trap '' TERM; b() { (b &) ; (b &) ; }; b; sleep 60", Limit),
    ("500 children", "for i in $(seq 400); do sleep 60 & done; wait", Limit),
    ("yes", "yes", Limit),
    ("random bytes", "cat /dev/urandom", Limit),
    ("one byte every 10 ms", "while :; do printf .; sleep 0.01; done", Limit),
    ("closed output", "exec 1>&- 2>&-; echo nobody hears; exit 6", Code(6)),
    ("full output", "exec >/dev/full; echo x; exit 6", Code(6)),
    ("closed everything", "exec 0<&- 1>&- 2>&- 197>&-; exit 6", Code(6)),
    (
        "terminal programs",
        "script -qc true /dev/null </dev/null; top -bn1 | head -1; vi </dev/null; true",
        Any,
    ),
    ("shell as another user", "su nobody -s /bin/sh -c 'id -un'", Code(0)),
    (
        "programs that ask or draw",
        "top </dev/null; vim; nano; less /etc/passwd; more /etc/passwd; man ls; python3; bash -i; sh -i; passwd; \
         ssh nobody@localhost; apt-get -o APT::Get::Assume-Yes=false remove procps; read -p 'sure? ' x; true",
        Any,
    ),
    ("pager", "git --no-optional-locks init -q /tmp/r && git -C /tmp/r log; true", Code(0)),
    ("password prompt", "sudo true; su -c true nobody </dev/null; true", Any),
    ("100 000 arguments", "set -- $(seq 100000); echo $#; /bin/echo \"$@\" | wc -w", Code(0)),
    ("argument list too long", "/bin/true $(head -c 3000000 /dev/zero | tr '\\0' x); exit $?", Code(126)),
    (
        "descriptor exhaustion",
        "python3 -c 'import os\ntry:\n  while 1: os.open(\"/\", 0)\nexcept OSError: pass'; ulimit -n 5; ls | cat",
        Any,
    ),
    ("directory without permission", "mkdir -m 000 /tmp/locked; cd /tmp/locked; pwd", Code(0)),
    (
        "deep directory",
        "for i in $(seq 300); do mkdir ddddddddddddddddd && cd ddddddddddddddddd || exit 1; done",
        Code(0),
    ),
    ("full memory file system", "head -c 2G /dev/zero >/tmp/fill; rm -f /tmp/fill; true", Any),
    (
        "inodes of the memory file system",
        "python3 -c 'import os\nos.chdir(\"/tmp\")\nfor i in range(10**6): os.close(os.open(str(i), os.O_CREAT))'",
        Code(1),
    ),
    ("clock", "date -s '2001-01-01'; date -s '2101-01-01'; hwclock -w; test $(date +%Y) -gt 2024", Code(0)),
    ("file size limit", "ulimit -f 10; head -c 1M /dev/zero >/tmp/big", Code(153)),
    (
        "slow leak in a background job",
        "python3 -c 'x = []\nwhile 1: x.append(bytearray(50 << 20))' & wait",
        Any,
    ),
    (
        "output directory replaced by a link",
        "rm -rf /workspace/.out; ln -s /etc /workspace/.out; seq 10000",
        Code(0),
    ),
    (
        "output directory replaced by a file",
        "rm -rf /workspace/.out; touch /workspace/.out; seq 10000",
        Code(0),
    ),
    ("output directory gone", "rm -rf /workspace/.out; seq 10000", Code(0)),
    ("workspace gone", "cd /; rm -rf /workspace; seq 10000", Code(0)),
    ("terminal escapes", "printf '\\033]0;title\\007\\033[2J\\033[?1049h\\r10%%\\r20%%\\n'", Code(0)),
    ("carriage returns", "echo a\r\necho b\r\n", Any),
    ("leading dash", "-x; exit 6", Code(6)),
    ("trap that resists", "trap 'sleep 60' TERM INT; trap 'sleep 60' EXIT; sleep 60", Limit),
    ("trap DEBUG", "trap 'exit 5' DEBUG; true", Code(5)),
    ("exit in a subshell of the background", "(sleep 0.1; kill -9 $$) & wait; sleep 1", Code(137)),
    ("stopped by itself", "kill -STOP $$", Limit),
    ("stopped child", "sleep 60 & kill -STOP $!; wait", Limit),
    ("stopped everything", "kill -STOP -1; sleep 60", Limit),
    ("killed everything, again and again", "for i in 1 2 3 4 5; do kill -9 -1; done; exit 4", Code(4)),
    ("renamed to look like us", "exec -a /.gaia/guest sleep 60", Limit),
    ("guest removed", "rm -rf /.gaia; exit 4", Code(4)),
    ("debugger on pid 1", "python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))'", Any),
    (
        "keyrings and bpf",
        "python3 -c 'import ctypes; c = ctypes.CDLL(None); print(c.syscall(250, 0, -3, 0), c.syscall(321, 0, 0, 0))'",
        Any,
    ),
    ("mangled options", "set -o noglob -o noclobber -o physical; shopt -s failglob nullglob", Code(0)),
    ("mangled field separator", "IFS=abcdefghijklmnopqrstuvwxyz/; PS4=$(printf '\\n'); OPTIND=9", Code(0)),
    ("mangled reply", "REPLY=x; readonly REPLY; exit 6", Code(6)),
    ("function named like ours", "__gaia_save() { sleep 60; }; exit 3", Limit),
    ("recursion without end", "f() { f; }; f", Any),
    ("expansion without end", "x=x; while :; do x=$x$x; done", Any),
];

#[tokio::test]
async fn nothing_breaks_the_sandbox() {
    let sandbox = sandbox().await;
    let mut failures = Vec::new();
    for (name, text, end) in CASES {
        sandbox.says("rm -f /workspace/.out/*; find /tmp -mindepth 1 -delete").await;
        let timeout = if matches!(end, Limit) { LIMIT } else { PLENTY };
        let output = sandbox.within(text, timeout).await;
        let is_right = match end {
            Code(code) => output.exit_code == *code && !output.timed_out,
            Limit => output.timed_out,
            Any => !output.timed_out,
        };
        if !is_right {
            failures.push(format!("{name}: {}", summary(&output)));
        }
        if let Some(problem) = aftermath(&sandbox, matches!(end, Limit)).await {
            failures.push(format!("after {name}: {problem}"));
        }
        sandbox.restart_shell().await.unwrap();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // Nothing has piled up in the guest: standard descriptors, the link, the signals, and what a shell ahead needs.
    let facts = sandbox.says("ls /proc/1/fd | wc -l; ps -eo stat= | grep -c Z || true").await;
    let facts: Vec<u32> = facts.split_whitespace().map(|number| number.parse().unwrap()).collect();
    assert!(facts[0] < 24 && facts[1] == 0, "descriptors, zombies: {facts:?}");
    sandbox.close().await.unwrap();
}

/// What is wrong after a case, if anything.
async fn aftermath(sandbox: &Sandbox, was_killed: bool) -> Option<String> {
    let output = sandbox.within("echo o''k", PLENTY).await;
    if output.exit_code != 0 || !text_of(&output).ends_with("ok\n") {
        return Some(format!("the next command: {}", summary(&output)));
    }
    if !was_killed {
        return None;
    }
    let strays = sandbox.within("ps -eo comm= | grep -E 'sleep|yes|cat|python'; true", PLENTY).await;
    (!strays.head.is_empty()).then(|| format!("still running: {}", text_of(&strays)))
}

fn summary(output: &Output) -> String {
    let text: String = text_of(output).chars().take(300).collect();
    format!("code {} timed_out {} notes {:?} said {text:?}", output.exit_code, output.timed_out, output.notes)
}

#[tokio::test]
async fn without_any_shell_every_command_says_so() {
    let sandbox = sandbox().await;
    sandbox.sh("rm -f /bin/* /usr/bin/* /usr/local/bin/*").await;
    // One shell may have been started ahead.
    sandbox.sh("true").await;
    let output = sandbox.sh("echo x").await;
    assert_eq!(output.exit_code, 127);
    assert_eq!(text_of(&output), "cannot execute /bin/bash: No such file or directory (os error 2)\n");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_shell_replaced_by_something_else_is_bounded_like_any_command() {
    let sandbox = sandbox().await;
    // A program of another machine: the kernel refuses it.
    sandbox.says("cp /bin/bash /bin/kept; printf '\\177ELF\\2\\1\\1' >/bin/next; chmod +x /bin/next").await;
    sandbox.says("mv /bin/next /bin/bash").await;
    // One shell may have been started ahead.
    sandbox.sh("true").await;
    let output = sandbox.sh("echo x").await;
    assert_eq!(
        (output.exit_code, text_of(&output).contains("cannot execute /bin/bash")),
        (127, true),
        "{output:?}"
    );
    sandbox.close().await.unwrap();

    let sandbox = crate::support::sandbox().await;
    sandbox.says("printf '#!/bin/sh\\nwhile :; do :; done\\n' >/bin/next; chmod +x /bin/next; mv /bin/next /bin/bash").await;
    sandbox.within("true", LIMIT).await;
    for _ in 0..2 {
        let output = sandbox.within("echo x", LIMIT).await;
        assert!(output.timed_out && output.head.is_empty(), "{output:?}");
    }
    // Files can still be written, so there is a way back.
    sandbox.restart_shell().await.unwrap();
    assert!(sandbox.read_file("/etc/passwd", 0, 10).await.is_ok());
    sandbox.close().await.unwrap();
}
