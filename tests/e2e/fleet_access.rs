//! Who may come to the nats-server of a fleet, and what is said to whoever may not.

use std::process::Stdio;
use std::time::Duration;

use gaia_tests::nats::NatsServer;
use gaia_tests::scripted::{Options, Script, ScriptedModel, turn};

use crate::gaia::{Desk, Ended, results};
use crate::support::eventually;

/// For anything that takes a moment on an idle machine.
const LIMIT: Duration = Duration::from_secs(60);

const PASSWORD: &str = "pw-fleet-access-7781";
const TOKEN: &str = "tk-fleet-access-7782";

/// The key pair that the documentation of the server shows.
const NKEY_SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const NKEY_PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

/// What is given to every command: variables and flags.
struct Access<'a> {
    variables: &'a [(&'a str, &'a str)],
    flags: &'a [&'a str],
}

async fn command(desk: &Desk, url: &str, command: &[&str], access: &Access<'_>) -> Ended {
    let arguments = [command, &["--nats", url], access.flags].concat();
    let output = desk.command(&arguments).envs(access.variables.iter().copied()).output();
    tokio::time::timeout(LIMIT, output).await.unwrap().unwrap().into()
}

/// Two samples with the right secret; without one and with a wrong one a word on what to set, from every command.
async fn only_the_right_one_gets_in(
    desk: Desk,
    server: &[&str],
    right: Access<'_>,
    wrong: Access<'_>,
    secret: &str,
) {
    let nats = NatsServer::start(&desk.path().join("jetstream"), server).unwrap();
    let url = nats.url();
    desk.dataset(&[("t-1", "What is it?", 1, "blue"), ("t-2", "What else is it?", 1, "blue")]);
    let script = Script::new()
        .task("What is it?", [turn::submit("blue")])
        .task("What else is it?", [turn::submit("blue")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let text = format!(
        "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[agent]\nanswer_tool = \
         \"submit/submit\"\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
        model.base_url
    );
    desk.write("c.toml", &text);

    let nothing = Access { variables: &[], flags: &[] };
    for refused in [&nothing, &wrong] {
        for words in [&["run", "c.toml"][..], &["worker", "--config", "c.toml"], &["workers"]] {
            let ended = command(&desk, &url, words, refused).await;
            assert_eq!(ended.code, 4, "{words:?}: {ended:#?}");
            assert!(ended.stderr.contains("failed to connect to NATS"), "{words:?}: {}", ended.stderr);
            for name in ["GAIA_NATS_PASSWORD", "GAIA_NATS_TOKEN", "--nats-creds", "--nats-nkey"] {
                assert!(ended.stderr.contains(name), "{words:?}: {}", ended.stderr);
            }
            assert!(!ended.stderr.contains(secret), "{}", ended.stderr);
        }
    }

    let log = desk.path().join("worker.log");
    let arguments = [&["-v", "worker", "--config", "c.toml", "--nats", &url][..], right.flags].concat();
    let mut worker = desk
        .command(&arguments)
        .envs(right.variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(fs_err::File::create(&log).unwrap().into_parts().0)
        .spawn()
        .unwrap();
    eventually("the worker is there", LIMIT, async || {
        command(&desk, &url, &["workers"], &right).await.stdout.contains("0/4")
    })
    .await;
    let pid = worker.id().unwrap();
    let arguments = fs_err::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains(secret));
    let ended = command(&desk, &url, &["run", "c.toml"], &right).await;
    assert_eq!(ended.code, 0, "{ended:#?}\n{}", fs_err::read_to_string(&log).unwrap());
    assert!(!ended.stderr.contains(secret) && !ended.stdout.contains(secret), "{ended:#?}");
    assert!(!fs_err::read_to_string(&log).unwrap().contains(secret));
    let run = desk.runs().pop().unwrap();
    assert_eq!(results(&run).len(), 2);
    // What is kept of the run, here and at the server, holds no secret.
    for folder in [desk.path().join("runs"), desk.path().join("jetstream")] {
        for (path, content) in crate::replay::snapshot(&folder) {
            assert!(
                !content.windows(secret.len()).any(|part| part == secret.as_bytes()),
                "{}",
                path.display()
            );
        }
    }
    worker.kill().await.unwrap();
    model.close().await;
}

#[tokio::test]
async fn a_user_needs_the_password() {
    let right = [("GAIA_NATS_USER", "fleet"), ("GAIA_NATS_PASSWORD", PASSWORD)];
    let wrong = [("GAIA_NATS_USER", "fleet"), ("GAIA_NATS_PASSWORD", "guessed")];
    only_the_right_one_gets_in(
        Desk::new(),
        &["--user", "fleet", "--pass", PASSWORD],
        Access { variables: &right, flags: &[] },
        Access { variables: &wrong, flags: &[] },
        PASSWORD,
    )
    .await;
}

#[tokio::test]
async fn a_token_must_be_the_right_one() {
    only_the_right_one_gets_in(
        Desk::new(),
        &["--auth", TOKEN],
        Access { variables: &[("GAIA_NATS_TOKEN", TOKEN)], flags: &[] },
        Access { variables: &[("GAIA_NATS_TOKEN", "guessed")], flags: &[] },
        TOKEN,
    )
    .await;
}

#[tokio::test]
async fn an_nkey_must_be_one_that_the_server_knows() {
    let desk = Desk::new();
    let config =
        desk.write("nats.conf", &format!("authorization: {{ users: [ {{ nkey: {NKEY_PUBLIC} }} ] }}\n"));
    let seed = desk.write("fleet.nk", &format!("{NKEY_SEED}\n"));
    let (config, seed) = (config.to_str().unwrap().to_owned(), seed.to_str().unwrap().to_owned());
    only_the_right_one_gets_in(
        desk,
        &["-c", &config],
        Access { variables: &[], flags: &["--nats-nkey", &seed] },
        Access { variables: &[("GAIA_NATS_TOKEN", "guessed")], flags: &[] },
        NKEY_SEED,
    )
    .await;
}

#[tokio::test]
async fn what_wants_one_machine_is_refused_before_anything_is_started() {
    let desk = Desk::new();
    desk.dataset(&[("t-1", "What is it?", 1, "blue")]);
    // Neither the server nor the model is there: whoever asks them first ends with another code.
    desk.write(
        "c.toml",
        "[dataset]\npath = \"samples\"\n[model]\nname = \"m\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[agent]\nanswer_tool = \
         \"submit/submit\"\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
    );
    let cases: [(&[&str], &str); 5] = [
        (&["run", "c.toml", "--staged"], "--staged"),
        (&["run", "c.toml", "--set", "run.staged.enabled=true"], "--staged"),
        (&["run", "c.toml", "--agent", "human"], "--agent human"),
        (&["run", "c.toml", "--events"], "--events"),
        (&["resume", "last", "--continue-samples"], "--continue-samples"),
    ];
    for (words, named) in cases {
        let arguments = [words, &["--nats", "nats://127.0.0.1:9"]].concat();
        let ended = desk.gaia(&arguments).await;
        assert_eq!(ended.code, 2, "{words:?}: {ended:#?}");
        assert!(
            ended.stderr.contains("--nats") && ended.stderr.contains(named),
            "{words:?}: {}",
            ended.stderr
        );
        assert!(!desk.path().join("runs").exists(), "{words:?}");
    }
}
