//! Our pages as people see them: in Chromium, at two sizes, by day and by night, with runs large, empty, half done and
//! hostile. `GAIA_PICTURES=DIR` keeps the pictures; those in `docs` came about so.

use std::path::{Path, PathBuf};

use gaia_tests::browser::{Browser, LOOKS, Look};
use gaia_tests::stored_run::{
    Shape, VALIDATION, result, started, store_record, store_sample, store_shaped, turn,
};
use serde_json::{Value, json};

use crate::gaia::Desk;

const HOSTILE: &str = "</td></table></svg><script>window.bad = 1; alert(1)</script><img src=x onerror='window.bad = 2'>\
                       <a href=\"javascript:window.bad = 3\">x</a>\u{1b}[31mred\u{1b}[0m \u{202e}gnorw\u{202c} שלום עולם مرحبا \u{0}&amp;\"'";

const GOOD: Shape = Shape { levels: VALIDATION, skill: [0.85, 0.66, 0.4], seed: 1, turns: 40 };

fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Where a picture goes.
fn picture(name: &str, look: Look) -> Option<PathBuf> {
    let folder = std::env::var_os("GAIA_PICTURES").filter(|folder| !folder.is_empty())?;
    let size = if look.width < 600 { "phone" } else { "desk" };
    Some(Path::new(&folder).join(format!("{name}-{size}-{}.png", look.theme.name())))
}

/// Looks at a page in every way; nothing of it may run that is not ours, complain, or reach beyond the window.
async fn look_at(browser: &mut Browser, name: &str, path: &Path) {
    for look in LOOKS {
        browser.open(&file_url(path), look).await.unwrap();
        let wider = browser.overflow().await.unwrap();
        assert_eq!(wider, 0, "{name} at {look:?} is {wider} pixels too wide");
        assert_eq!(
            browser.evaluate("window.bad === undefined").await.unwrap(),
            json!(true),
            "{name}: a script ran"
        );
        assert_eq!(browser.problems().await.unwrap(), Vec::<String>::new(), "{name} at {look:?}");
        if let Some(picture) = picture(name, look) {
            browser.screenshot(&picture).await.unwrap();
        }
    }
    let printed = browser.print().await.unwrap();
    assert!(printed.starts_with(b"%PDF") && printed.len() > 5_000, "{name}: {} bytes", printed.len());
}

async fn reported(desk: &Desk, id: &str) -> PathBuf {
    let ended = desk.gaia(&["report", id]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    desk.path().join("runs").join(id).join("report.html")
}

#[tokio::test]
async fn the_report_of_a_whole_validation_run_answers_in_the_browser() {
    let desk = Desk::new();
    store_shaped(&desk.path().join("runs"), "20261130T101502Z-whole", GOOD).unwrap();
    let page = reported(&desk, "20261130T101502Z-whole").await;
    let mut browser = Browser::start().await.unwrap();
    look_at(&mut browser, "report", &page).await;

    browser.open(&file_url(&page), LOOKS[0]).await.unwrap();
    let shown = "Array.from(document.querySelectorAll('#sample-table tbody tr')).filter(row => !row.hidden)";
    let count = format!("{shown}.length");
    assert_eq!(browser.evaluate(&count).await.unwrap(), json!(165));
    // Which samples failed by format: a click on a class shows these.
    browser.evaluate("document.querySelector('#failures a[data-show-why^=format]').click()").await.unwrap();
    let classes =
        browser.evaluate(&format!("[...new Set({shown}.map(row => row.dataset.why))]")).await.unwrap();
    assert!(
        classes
            .as_array()
            .is_some_and(|classes| classes.len() == 1 && classes[0].as_str().unwrap().starts_with("format")),
        "{classes}"
    );
    let format: i64 = browser.evaluate(&count).await.unwrap().as_i64().unwrap();
    assert!((1..100).contains(&format), "{format}");
    // The filters together, and by text.
    browser.evaluate("document.getElementById('filter-clear').click()").await.unwrap();
    browser.evaluate("(() => { const level = document.getElementById('filter-level'); level.value = '3'; level.dispatchEvent(new Event('input')); })()").await.unwrap();
    assert_eq!(browser.evaluate(&count).await.unwrap(), json!(26));
    browser.evaluate("(() => { const text = document.getElementById('filter-text'); text.value = 'no such thing'; text.dispatchEvent(new Event('input')); })()").await.unwrap();
    assert_eq!(browser.evaluate(&count).await.unwrap(), json!(0));
    browser.evaluate("document.getElementById('filter-clear').click()").await.unwrap();
    // Sorted by tokens, up and then down.
    let tokens = format!(
        "{shown}.map(row => Number(Array.from(row.querySelectorAll('td.number')).at(-3).dataset.value))"
    );
    let click = "Array.from(document.querySelectorAll('#sample-table th button')).find(button => button.textContent === 'Tokens').click()";
    for down in [false, true] {
        browser.evaluate(click).await.unwrap();
        let values: Vec<f64> = serde_json::from_value(browser.evaluate(&tokens).await.unwrap()).unwrap();
        assert!(
            values.is_sorted_by(|a, b| if down { a >= b } else { a <= b }) && values[0] != values[164],
            "{values:?}"
        );
    }
    // Dark by the button, whatever the system has.
    let background = "getComputedStyle(document.body).backgroundColor";
    let light = browser.evaluate(background).await.unwrap();
    browser.evaluate("document.getElementById('theme').click()").await.unwrap();
    assert_ne!(browser.evaluate(background).await.unwrap(), light);
    // What people ask first is answered in words.
    let glance = browser.evaluate("document.querySelector('main').innerText").await.unwrap();
    let glance = glance.as_str().unwrap();
    for part in [
        "Failed by format alone:",
        "The tool that took most time:",
        "browser/browser_navigate",
        "One more correct answer costs: $",
        "92.0%",
    ] {
        assert!(glance.contains(part), "no `{part}`");
    }
    assert_eq!(browser.problems().await.unwrap(), Vec::<String>::new());
    browser.close().await.unwrap();
}

#[tokio::test]
async fn empty_and_half_done_runs_have_pages_that_say_so() {
    let desk = Desk::new();
    let runs = desk.path().join("runs");
    store_record(&runs, "20261130T101502Z-empty", &[], |_| ()).unwrap();
    let shape = Shape { levels: [6, 5, 4], ..GOOD };
    let half = store_shaped(&runs, "20261130T101502Z-half", shape).unwrap();
    for (number, task) in fs_err::read_dir(half.join("samples")).unwrap().enumerate() {
        let sample = task.unwrap().path().join("1");
        match number % 4 {
            0 => fs_err::remove_dir_all(&sample).unwrap(),
            // Killed in the middle of a line.
            1 => {
                fs_err::remove_file(sample.join("result.json")).unwrap();
                let events = fs_err::read(sample.join("events.jsonl")).unwrap();
                fs_err::write(sample.join("events.jsonl"), &events[..events.len() - 40]).unwrap();
            }
            _ => {}
        }
    }
    let mut browser = Browser::start().await.unwrap();
    for (id, name, words) in [
        ("20261130T101502Z-empty", "report-empty", "No sample was asked for"),
        ("20261130T101502Z-half", "report-half", "samples have no outcome yet"),
    ] {
        let page = reported(&desk, id).await;
        look_at(&mut browser, name, &page).await;
        let text = browser.evaluate("document.querySelector('main').innerText").await.unwrap();
        assert!(text.as_str().unwrap().contains(words), "{text}");
        assert!(!text.as_str().unwrap().contains("NaN"), "{text}");
    }
    browser.close().await.unwrap();
}

#[tokio::test]
async fn hostile_content_stays_text_in_report_and_comparison() {
    let desk = Desk::new();
    let runs = desk.path().join("runs");
    let long = "W".repeat(1 << 20);
    // A task may be called anything that can be a folder.
    let tasks: Vec<(String, u8)> = vec![
        ("<img src=x onerror=window.bad=4>".to_owned(), 1),
        ("\u{202e}txt.exe שלום".to_owned(), 2),
        ("x".repeat(200), 3),
        ("plain".to_owned(), 3),
    ];
    let hostile_run = |id: &str, answers: [&str; 4]| {
        let run = store_record(&runs, id, &tasks, |record| {
            for key in ["model", "program_version"] {
                record[key] = HOSTILE.into();
            }
            record["dataset"]["name"] = HOSTILE.repeat(50).into();
            record["tools"] = json!([HOSTILE, long]);
            record["config"]["model"]["name"] = HOSTILE.into();
            record["config"]["model"][HOSTILE.replace('\0', "")] = long.as_str().into();
        })
        .unwrap();
        for ((task, level), answer) in tasks.iter().zip(answers) {
            let status = if *level == 2 { "error" } else { "answered" };
            let mut result = result(task, *level, status, &Value::from(answer), "42");
            if *level == 2 {
                result["error"] = json!({ "kind": "server", "message": format!("{HOSTILE}{long}") });
            }
            let mut events = vec![started(HOSTILE)];
            events.extend(turn(1, HOSTILE, true, 2.0, &format!("{HOSTILE}\n{long}")));
            events.extend(turn(2, &long, true, 3.0, HOSTILE));
            events.push(
                json!({ "type": "server_notice", "server": HOSTILE, "level": "error", "text": HOSTILE }),
            );
            let page =
                json!({ "contaminated": { "url": format!("javascript:window.bad=5//{HOSTILE}{long}") } });
            events.push(json!({ "type": "server_notice", "server": "fetch", "level": "warning", "text": page.to_string() }));
            store_sample(&run, task, &events, Some(&result)).unwrap();
        }
        // Bytes that are no UTF-8, in the middle of what a tool said.
        let events = run.join("samples/plain/1/events.jsonl");
        let mut bytes = fs_err::read(&events).unwrap();
        let at = bytes.windows(3).position(|window| window == b"red").unwrap();
        bytes[at] = 0xff;
        fs_err::write(&events, bytes).unwrap();
    };
    hostile_run("20261130T101502Z-hostile", [HOSTILE, "x", &long, "42"]);
    hostile_run("20261130T111502Z-hostile", [&long, HOSTILE, "42", HOSTILE]);

    let mut browser = Browser::start().await.unwrap();
    let page = reported(&desk, "20261130T101502Z-hostile").await;
    assert!(fs_err::metadata(&page).unwrap().len() < 400_000, "{}", fs_err::metadata(&page).unwrap().len());
    look_at(&mut browser, "report-hostile", &page).await;
    let text = browser.evaluate("document.body.innerText").await.unwrap();
    let text = text.as_str().unwrap();
    assert!(
        text.contains("<script>window.bad = 1") && text.contains("␛[31mred") && text.contains("⟨U+202E⟩"),
        "not shown as text"
    );
    assert_eq!(browser.evaluate("document.links.length > 0 && [...document.links].every(link => link.getAttribute('href').startsWith('#'))").await.unwrap(), json!(true));

    let compared = desk.gaia(&["compare", "20261130T10", "20261130T11", "--format", "html"]).await;
    assert_eq!(compared.code, 0, "{:.2000}", compared.stderr);
    let page = desk.write("compare.html", &compared.stdout);
    look_at(&mut browser, "compare-hostile", &page).await;
    let table = desk.gaia(&["compare", "20261130T10", "20261130T11"]).await;
    assert!(!table.stdout.contains(['\u{1b}', '\u{202e}', '\0']), "{:.2000}", table.stdout);
    browser.close().await.unwrap();
}

#[tokio::test]
async fn a_comparison_tells_which_run_is_better_and_how_sure_that_is() {
    let desk = Desk::new();
    let runs = desk.path().join("runs");
    store_shaped(&runs, "20261130T101502Z-first", Shape { skill: [0.7, 0.45, 0.2], seed: 2, ..GOOD })
        .unwrap();
    store_shaped(&runs, "20261130T111502Z-second", GOOD).unwrap();
    store_shaped(&runs, "20261130T121502Z-third", Shape { seed: 5, ..GOOD }).unwrap();
    let ids = ["20261130T10", "20261130T11", "20261130T12"];

    let printed = desk.gaia(&[&["compare"][..], &ids[..], &["--json"]].concat()).await;
    assert_eq!(printed.code, 0, "{printed:#?}");
    let compared: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(compared["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(
        compared["pairs"][0]["verdict"], "second_is_better",
        "{:#}",
        compared["pairs"][0]["conclusion"]
    );
    assert_eq!(compared["pairs"][0]["common"], 165);

    let between = desk.gaia(&["compare", ids[1], ids[2]]).await;
    assert!(between.stdout.contains("not clear") || between.stdout.contains("Neither"), "{}", between.stdout);
    for line in between.stdout.lines().filter(|line| line.starts_with(['│', '┌'])) {
        assert!(line.chars().count() <= 96, "{line}");
    }
    let page = desk.gaia(&[&["compare"][..], &ids[..], &["--format", "html"]].concat()).await;
    let page = desk.write("compare.html", &page.stdout);
    let mut browser = Browser::start().await.unwrap();
    look_at(&mut browser, "compare", &page).await;
    let text = browser.evaluate("document.querySelector('main').innerText").await.unwrap();
    assert!(text.as_str().unwrap().contains("B is better than A: +"), "{text}");
    browser.close().await.unwrap();

    let markdown = desk.gaia(&["compare", ids[0], ids[1], "--format", "md"]).await;
    assert!(markdown.stdout.contains("## B beside A, on the 165 tasks"), "{}", markdown.stdout);
    for (arguments, words) in [
        (&["compare", ids[0], ids[0]][..], "named twice"),
        (&["compare", ids[0]], "required"),
        (&["compare", ids[0], "nothing"], "nothing"),
    ] {
        let ended = desk.gaia(arguments).await;
        assert!(
            ended.code == 2 && (ended.stderr.contains(words) || ended.stderr.contains("2 values")),
            "{ended:#?}"
        );
    }
}
