//! What persists from one command to the next.

use crate::support::{Run, sandbox, text_of};

#[tokio::test]
async fn directory_variables_functions_aliases_and_options_persist() {
    let sandbox = sandbox().await;
    assert_eq!(sandbox.says("pwd").await, "/workspace");
    sandbox
        .says(
            "mkdir -p '/tmp/a b'\"'\"'c'; cd '/tmp/a b'\"'\"'c'; export E='one two'; plain=$'line\\n\"quoted\" $x `y`'; \
             declare -a list=(1 'two three' $'four\\n'); declare -A map=([k]=v ['k k']=$'v\\nv'); declare -i number=5; \
             readonly fixed=1; greet() { echo \"hello $1\"; }; shopt -s expand_aliases extglob; alias ll='echo aliased'; \
             set -o pipefail; umask 027",
        )
        .await;
    assert_eq!(sandbox.says("pwd").await, "/tmp/a b'c");
    assert_eq!(sandbox.says("printenv E").await, "one two");
    assert_eq!(sandbox.says("echo \"$plain\"").await, "line\n\"quoted\" $x `y`");
    assert_eq!(sandbox.says("echo \"${#list[@]} ${list[1]} ${map[k k]}\"").await, "3 two three v\nv");
    assert_eq!(sandbox.says("number+=1; echo $number $fixed").await, "6 1");
    assert_eq!(
        sandbox
            .says("greet you; ll; umask; set -o | grep pipefail")
            .await
            .split_whitespace()
            .collect::<Vec<_>>(),
        ["hello", "you", "aliased", "0027", "pipefail", "on"]
    );
    assert_eq!(sandbox.says("echo $number").await, "6", "a change by a later command persists too");
    assert_eq!(sandbox.sh("fixed=2").await.exit_code, 1, "read-only stays read-only");
    assert_eq!(sandbox.says("cd - >/dev/null; pwd").await, "/workspace", "`cd -` knows where it was");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn what_is_unset_stays_unset_and_what_is_changed_stays_changed() {
    let sandbox = sandbox().await;
    sandbox.says("unset LANG; PATH=/nowhere:$PATH; unset -f nothing").await;
    assert_eq!(sandbox.says("echo ${LANG-unset} ${PATH%%:*}").await, "unset /nowhere");
    sandbox.says("unset PATH").await;
    assert_eq!(sandbox.says("echo ${PATH-unset}").await, "unset");
    sandbox.restart_shell().await.unwrap();
    assert_eq!(sandbox.says("echo $LANG").await, "C.UTF-8");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_restart_forgets_everything_and_kills_what_runs() {
    let sandbox = sandbox().await;
    sandbox.says("cd /tmp; x=1; f() { :; }; sleep 300 & setsid sleep 301 &").await;
    sandbox.restart_shell().await.unwrap();
    assert_eq!(
        sandbox.says("pwd; echo ${x-unset}; type -t f; pgrep -c sleep; true").await,
        "/workspace\nunset\n0"
    );
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn options_that_end_shells_do_not_outlive_their_command() {
    let sandbox = sandbox().await;
    sandbox.says("set -eux; kept=1").await;
    assert_eq!(sandbox.says("false; echo ${nope}$kept").await, "1");
    assert_eq!(text_of(&sandbox.sh("set -x; :").await), "++ :\n", "the saving of the state is not traced");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn state_survives_every_way_to_end_a_shell() {
    let sandbox = sandbox().await;
    sandbox.says("kept=1; cd /tmp").await;
    for text in [
        "exec true",
        "kill -9 $$",
        "exec >/dev/full",
        "exec 1>&- 2>&-",
        "trap 'echo x' DEBUG",
        "trap 'echo err' ERR; false",
    ] {
        sandbox.sh(text).await;
        assert_eq!(sandbox.says("echo $kept; pwd").await, "1\n/tmp", "after `{text}`");
    }
    // These leave by exit, so they do save.
    for (text, value) in
        [("kept=2; exit 3", "2"), ("set -e; kept=3; false", "3"), ("kept=4; trap 'echo bye' EXIT", "4")]
    {
        sandbox.sh(text).await;
        assert_eq!(sandbox.says("echo $kept").await, value, "after `{text}`");
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn functions_named_like_builtins_harm_nobody() {
    let sandbox = sandbox().await;
    sandbox.says("cd() { echo mine; }; printf() { echo mine; }; exit() { echo mine; }; eval() { echo mine; }; read() { echo mine; }").await;
    assert_eq!(sandbox.says("cd").await, "mine");
    assert_eq!(sandbox.says("x=1; read").await, "mine");
    assert_eq!(sandbox.says("echo $x").await, "1");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_vanished_directory_is_told_and_replaced() {
    let sandbox = sandbox().await;
    sandbox.says("mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone").await;
    let output = sandbox.sh("pwd").await;
    assert_eq!(text_of(&output), "/workspace\n");
    assert_eq!(output.notes, ["`/tmp/gone` no longer exists: this command started in /workspace"]);
    assert_eq!(output.cwd, "/workspace");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn too_much_state_is_told_and_the_rest_kept() {
    let sandbox = sandbox().await;
    sandbox.says("small=1").await;
    let output = sandbox.sh("big=$(head -c 3000000 /dev/zero | tr '\\0' x); other=2").await;
    assert_eq!(output.notes, ["variable `big` is longer than 128 KiB and was not kept"]);
    assert_eq!(sandbox.says("echo ${#big} $small $other").await, "0 1 2");
    let output = sandbox.sh("for i in {1..20}; do printf -v many_$i %100000s x; done; cd /tmp").await;
    assert!(output.notes[0].contains("more than 1 MiB"), "{:?}", output.notes);
    assert_eq!(sandbox.says("echo ${many_7-unset} $small; pwd").await, "unset 1\n/tmp");
    let output = sandbox.sh("for i in {1..100000}; do printf -v many_$i value; done; exit 3").await;
    assert!(output.notes[0].contains("too long to save"), "{:?}", output.notes);
    assert_eq!((output.exit_code, output.signal, output.timed_out), (3, None, false));
    assert_eq!(sandbox.says("echo ${many_7-unset} $small").await, "unset 1");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn an_image_without_bash_uses_sh_and_says_so() {
    let sandbox = sandbox().await;
    sandbox.says("mv /bin/bash /bin/bash.away; if [ -e /usr/bin/bash ]; then mv /usr/bin/bash /usr/bin/bash.away; fi").await;
    // One shell may have been started ahead while bash was there.
    sandbox.sh("true").await;
    let output = sandbox.sh("cd /tmp; export E='a b'; echo from sh; exit 3").await;
    assert_eq!((output.exit_code, text_of(&output).as_str()), (3, "from sh\n"));
    assert_eq!(output.notes, ["this image has no bash: sh ran the command"]);
    assert_eq!(sandbox.says("pwd; printenv E").await, "/tmp\na b");
    assert_eq!(sandbox.sh("echo 'open").await.exit_code, 2);
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_virtual_environment_works_across_commands() {
    let sandbox = sandbox().await;
    sandbox.says("python3 -m venv --without-pip /tmp/venv").await;
    sandbox.says(". /tmp/venv/bin/activate").await;
    assert_eq!(sandbox.says("command -v python3").await, "/tmp/venv/bin/python3");
    sandbox.says("deactivate").await;
    assert_ne!(sandbox.says("command -v python3").await, "/tmp/venv/bin/python3");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn commands_at_the_same_time_do_not_move_each_other() {
    let sandbox = sandbox().await;
    sandbox.says("mkfifo /tmp/both; cd /").await;
    // Neither goes on before the other has changed its directory too.
    let (first, second) = tokio::join!(
        sandbox.says("cd /usr; x=1; echo >/tmp/both; echo $PWD ${x}${y}"),
        sandbox.says("cd /etc; y=2; read -r _ </tmp/both; echo $PWD ${x}${y}")
    );
    assert_eq!((first.as_str(), second.as_str()), ("/usr 1", "/etc 2"));
    // The last to end leaves its state.
    let after = sandbox.says("echo $PWD ${x}${y}").await;
    assert!(["/usr 1", "/etc 2"].contains(&after.as_str()), "{after}");
    sandbox.close().await.unwrap();
}
