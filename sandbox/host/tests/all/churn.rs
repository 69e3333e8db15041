//! Many sessions that come and go in every order, and one session that stays.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gaia_sandbox::{Command, LabelFilter, Sandbox};

use crate::support::{PLENTY, Run, engine, eventually, options, sandbox};

/// Sessions begin until then; the last of them ends somewhat later.
const CHURN_TIME: Duration = Duration::from_secs(20);

#[tokio::test]
async fn sessions_that_start_and_stop_at_random_leave_nothing_behind() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.labels.sample = Some(format!("churn-{}", std::process::id()));
    let filter = LabelFilter { sample: options.labels.sample.clone(), ..LabelFilter::default() };
    let until = Instant::now() + CHURN_TIME;
    let session = async |seed: u64| {
        let mut random = Random(seed);
        let mut lives = 0;
        while Instant::now() < until {
            let patience = match random.below(3) {
                0 => Duration::from_millis(random.below(3000)),
                _ => PLENTY,
            };
            let Ok(started) = tokio::time::timeout(patience, Sandbox::start(&engine, &options)).await else {
                continue;
            };
            let sandbox = started.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(sandbox.says(&format!("echo {seed}")).await, seed.to_string());
            lives += 1;
            match random.below(4) {
                0 => drop(sandbox),
                1 => {
                    // Gone in the middle of a command.
                    let sleep = sandbox.command(Command::new("trap '' TERM; sleep 60", PLENTY));
                    let _ = tokio::time::timeout(Duration::from_millis(random.below(200)), sleep).await;
                    drop(sandbox);
                }
                2 => {
                    sandbox.says("setsid sleep 300 & true").await;
                    sandbox.close().await.unwrap();
                }
                _ => sandbox.close().await.unwrap(),
            }
        }
        lives
    };
    let lives: u32 = join_all((0..20).map(session)).await.into_iter().sum();
    assert!(lives >= 10, "only {lives} sessions lived");
    eventually("all are removed", PLENTY, async || engine.list(&filter).await.unwrap().is_empty()).await;
}

#[tokio::test]
async fn ten_thousand_commands_leave_nothing_behind() {
    let sandbox = sandbox().await;
    let facts = "ls /proc/1/fd | wc -l; awk '/VmRSS/ {print $2}' /proc/1/status; ps -e | wc -l; \
                 ps -eo stat= | grep -c Z || true";
    let facts = async || {
        let mut facts: Vec<u64> =
            sandbox.says(facts).await.split_whitespace().map(|number| number.parse().unwrap()).collect();
        facts.push(fs_err::read_dir("/proc/self/fd").unwrap().count() as u64);
        facts.push(resident_kib());
        facts
    };
    let batch = async |round: usize| {
        let texts: Vec<String> = (0..10).map(|index| format!("x={round}.{index}; echo $x")).collect();
        let said = join_all(texts.iter().map(|text| sandbox.says(text))).await;
        for (index, said) in said.into_iter().enumerate() {
            assert_eq!(said, format!("{round}.{index}"));
        }
    };
    // The first ones fill what is filled once.
    for round in 0..20 {
        batch(round).await;
    }
    let before = facts().await;
    for round in 20..1000 {
        batch(round).await;
    }
    // What the last command leaves (its runner, two pipes) may not be gone yet; a leak would be thousands.
    let after = facts().await;
    let room = [
        ("descriptors of the guest", 8),
        ("KiB of the guest", 1024),
        ("processes", 4),
        ("zombies", 1),
        ("descriptors of the host", 8),
        ("KiB of the host", 16 << 10),
    ];
    for (((name, room), before), after) in room.into_iter().zip(before).zip(after) {
        assert!(after <= before + room, "{name}: {before} before, {after} after");
    }
    sandbox.close().await.unwrap();
}

/// Numbers that look random and are the same every time (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // Zero would stay zero, and small seeds resemble each other at first.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}

fn resident_kib() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
