//! `gaia doctor` and `gaia tools` on configs whose servers come from a file of another host.

use serde_json::{Value, json};

use crate::gaia::Desk;

/// One server of ours, one that ends at once, one that is not there, one that nobody needs, one that is switched off.
fn desk() -> Desk {
    let desk = Desk::new();
    let servers = json!({ "mcpServers": {
        "submit": { "command": "gaia-mcp-submit", "prefix": "final_" },
        "ends": { "command": "bash", "args": ["-c", "echo 'no licence found' >&2; echo 'bye' >&2; exit 7"] },
        "absent": { "command": "no-such-program-here" },
        "spare": { "command": "false", "required": false },
        "off": { "command": "false", "disabled": true },
    } });
    desk.write("mcp.json", &servers.to_string());
    desk
}

#[tokio::test]
async fn the_doctor_says_in_one_line_what_each_server_is_or_what_is_wrong() {
    let desk = desk();
    let ended = desk.gaia(&["doctor", "mcp.json"]).await;
    assert_eq!(ended.code, 4, "{ended:#?}");
    let line = |name: &str| {
        let lines: Vec<&str> =
            ended.stdout.lines().filter(|line| line.contains(&format!("server   {name}"))).collect();
        let [line] = lines.as_slice() else { panic!("{name}: {ended:#?}") };
        (*line).to_owned()
    };
    let submit = line("submit");
    assert!(submit.starts_with("ok ") && submit.contains("gaia-mcp-submit 0."), "{submit}");
    assert!(submit.contains("protocol 20") && submit.contains(" 1 tool, started in "), "{submit}");
    let ends = line("ends");
    assert!(
        ends.starts_with("FAIL")
            && ends.contains("exited with code 7")
            && ends.contains("no licence found | bye"),
        "{ends}"
    );
    assert!(line("absent").contains("command `no-such-program-here` not found"), "{ended:#?}");
    assert!(line("spare").starts_with("- ") && line("spare").contains("(not required)"), "{ended:#?}");
    assert!(line("off").contains("switched off"), "{ended:#?}");

    let ended = desk.gaia(&["doctor", "mcp.json", "--json"]).await;
    let checks: Value = serde_json::from_str(&ended.stdout).unwrap();
    let of = |name: &str| checks.as_array().unwrap().iter().find(|check| check["server"] == name).unwrap();
    assert_eq!(
        (&of("submit")["state"], &of("submit")["tools"]["offered"]),
        (&json!("ok"), &json!(1)),
        "{checks:#}"
    );
    assert!(of("submit")["start_ms"].is_u64() && of("submit")["protocol"].is_string(), "{checks:#}");
    assert_eq!(of("ends")["state"], "fail");
}

#[tokio::test]
async fn a_json_file_is_a_config_and_a_prefix_is_part_of_the_name() {
    let desk = desk();
    let off: Vec<String> =
        ["ends", "absent"].iter().map(|name| format!("mcp_servers.{name}.enabled=false")).collect();
    let arguments = ["tools", "mcp.json", "--json", "--set", &off[0], "--set", &off[1]];
    let ended = desk.gaia(&arguments).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let rows: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&rows[0]["model_name"], &rows[0]["tool"]), (&json!("final_submit"), &json!("submit/submit")));
    let arguments = [
        "call",
        "mcp.json",
        "final_submit",
        r#"{"answer": "17"}"#,
        "--json",
        "--set",
        &off[0],
        "--set",
        &off[1],
    ];
    let called = desk.gaia(&arguments).await;
    assert_eq!(called.code, 0, "{called:#?}");
    let called: Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(called["structured"]["answer"], "17");
}
