//! A coordinator and many workers that do no work, so many that the order of their messages is nobody's.

use std::process::Stdio;

use gaia_tests::nats::NatsServer;
use gaia_tests::scripted::{Options, Script, ScriptedModel};
use gaia_tests::simulated_workers::SimulatedWorkers;
use tokio_util::sync::CancellationToken;

use crate::crash::{all_is_readable, outcomes};
use crate::gaia::Desk;

const SAMPLES: usize = 400;

const WORKERS: usize = 40;

const TURNS: usize = 3;

#[tokio::test]
async fn what_forty_workers_send_at_once_is_written_whole_and_once() {
    let desk = Desk::new();
    let rows: Vec<_> =
        (0..SAMPLES).map(|n| (format!("task-{n:03}"), format!("What is number {n}?"))).collect();
    // A quarter of the answers is wrong.
    let truth = |n: usize| if n.is_multiple_of(4) { "red" } else { "blue" };
    let lines: Vec<_> = rows
        .iter()
        .enumerate()
        .map(|(n, (id, question))| (id.as_str(), question.as_str(), 1, truth(n)))
        .collect();
    desk.dataset(&lines);
    let nats = NatsServer::start(&desk.path().join("jetstream"), &[]).unwrap();
    let model = ScriptedModel::start(Script::new(), Options::default()).await.unwrap();
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"simulated\"\nbase_url = \"{}\"\n[mcp_servers.submit]\n\
             command = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let run = desk.command(&["run", "c.toml", "--json", "--nats", &nats.url()]).stdin(Stdio::null()).output();
    let ended = CancellationToken::new();
    let workers = SimulatedWorkers {
        url: nats.url(),
        workers: WORKERS,
        turns: TURNS,
        output_bytes: 2_000,
        answer: "blue".to_owned(),
    };
    let working = tokio::spawn(workers.work(ended.clone()));
    let output = run.await.unwrap();
    ended.cancel();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(working.await.unwrap().unwrap(), SAMPLES);

    let run = desk.runs().pop().unwrap();
    all_is_readable(&run);
    let outcomes = outcomes(&run);
    assert_eq!(outcomes.len(), SAMPLES);
    let right = outcomes.values().filter(|outcome| outcome["score"]["correct"] == true).count();
    assert_eq!(right, SAMPLES * 3 / 4);
    for (id, _) in &rows {
        let text = fs_err::read_to_string(run.join("samples").join(id).join("1/events.jsonl")).unwrap();
        // Four events a turn behind the first, in their order.
        let steps: Vec<_> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["step"].as_u64().unwrap_or(0)
            })
            .collect();
        let expected: Vec<_> =
            std::iter::once(0).chain((1..=TURNS as u64).flat_map(|step| [step; 4])).collect();
        assert_eq!(steps, expected, "{id}");
    }
    model.close().await;
}
