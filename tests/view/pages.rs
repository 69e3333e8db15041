use std::path::{Path, PathBuf};

use gaia_tests::browser::{Browser, LOOKS, Look, Theme};
use gaia_tests::made_run::{self, MadeRun, TRUTH};
use serde_json::json;

use crate::viewer::{LIMIT, Viewer};

/// Written into this folder when it is named: how the pictures in `docs` come about.
const PICTURES: &str = "GAIA_PICTURES";

const DESK: Look = LOOKS[0];

const WHOLE: &str = "/run/20261102T090000Z-whole";
/// Wrong, so that its truth stands nowhere else.
const SAMPLE: &str = "/run/20261102T090000Z-whole/00000003-1111-4222-8333-000000005ccd/1";

/// Opens a page in every look: nothing acts, nothing complains, nothing is wider than the window.
async fn check(browser: &mut Browser, viewer: &Viewer, path: &str, picture: &str) {
    for look in LOOKS {
        let what = format!("{path} at {} in {}", look.width, look.theme.name());
        // To the same address with a part of it named, a browser does not go anew.
        browser.open("about:blank", look).await.unwrap();
        browser.open(&format!("{}{path}", viewer.url), look).await.unwrap();
        assert_eq!(browser.problems().await.unwrap(), Vec::<String>::new(), "{what}");
        assert!(browser.overflow().await.unwrap() <= 0, "{what} overflows");
        assert_eq!(browser.evaluate("window.hacked === undefined").await.unwrap(), true, "{what}");
        let height = browser.evaluate("document.querySelector('main').offsetHeight").await.unwrap();
        assert!(height.as_i64().unwrap() > 60, "{what} shows nothing");
        if let Some(folder) = std::env::var_os(PICTURES).filter(|_| !picture.is_empty()) {
            let name = format!("{picture}-{}-{}.png", look.width, look.theme.name());
            browser.screenshot(&PathBuf::from(folder).join(name)).await.unwrap();
        }
    }
}

fn whole(runs: &Path) -> MadeRun {
    made_run::whole(runs, 165, 100, 600).unwrap()
}

#[tokio::test]
async fn the_pages_of_a_run_of_165_samples_in_every_look() {
    let runs = tempfile::tempdir().unwrap();
    whole(runs.path());
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    check(&mut browser, &viewer, "/", "runs").await;
    check(&mut browser, &viewer, WHOLE, "run").await;
    assert_eq!(browser.evaluate("document.querySelectorAll('tr[data-item]').length").await.unwrap(), 165);
    check(&mut browser, &viewer, SAMPLE, "sample").await;
    check(&mut browser, &viewer, &format!("{SAMPLE}?turn=77#turn-77"), "turn").await;
    check(&mut browser, &viewer, &format!("{WHOLE}/search?q=lazy%20dog"), "search").await;
    browser.close().await.unwrap();
    viewer.end().await;
}

#[tokio::test]
async fn an_empty_folder_and_a_run_that_was_killed() {
    let runs = tempfile::tempdir().unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    check(&mut browser, &viewer, "/", "empty").await;
    made_run::partial(runs.path()).unwrap();
    let run = "/run/20261103T090000Z-partial";
    check(&mut browser, &viewer, run, "partial").await;
    for sample in ["torn", "waiting", "damaged", "roles", "done"] {
        check(
            &mut browser,
            &viewer,
            &format!("{run}/{sample}/1"),
            if sample == "torn" { sample } else { "" },
        )
        .await;
    }
    let torn = viewer.text(&format!("{run}/torn/1")).await;
    assert!(
        torn.contains("of_a_later_gaia") && torn.contains("could not be read, and are not shown: 1"),
        "{torn}"
    );
    assert!(viewer.text(&format!("{run}/damaged/1")).await.contains("result.json"));
    // The last attempt, and the one before when it is asked for.
    let (last, first) = (format!("{run}/done/1"), format!("{run}/done/1?attempt=1"));
    let (last, first) = (viewer.text(&last).await, viewer.text(&first).await);
    assert!(last.contains("of the second attempt") && !last.contains("of the first attempt"), "{last}");
    assert!(first.contains("of the first attempt") && !first.contains("of the second attempt"), "{first}");
    let role = viewer.text(&format!("{run}/roles/1?branch=run%202")).await;
    assert!(role.contains("id=\"turn-2\"") && !role.contains("id=\"turn-1\""), "{role}");
    browser.close().await.unwrap();
    viewer.end().await;
}

#[tokio::test]
async fn what_hostile_tools_answer_stays_text() {
    let runs = tempfile::tempdir().unwrap();
    let hostile = made_run::hostile(runs.path()).unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    let run = format!("/run/{}", hostile.id);
    check(&mut browser, &viewer, "/", "").await;
    check(&mut browser, &viewer, &run, "hostile-run").await;
    let links = browser
        .evaluate("[...document.querySelectorAll('tr[data-item] a[data-open]')].map(link => link.getAttribute('href'))")
        .await
        .unwrap();
    let links: Vec<String> = serde_json::from_value(links).unwrap();
    assert_eq!(links.len(), 3);
    for (index, link) in links.iter().enumerate() {
        check(&mut browser, &viewer, link, if index == 2 { "hostile" } else { "" }).await;
        assert_eq!(browser.evaluate("document.querySelectorAll('.turn').length").await.unwrap(), 9, "{link}");
        let opened = "document.querySelectorAll('details').forEach(one => one.open = true)";
        browser.evaluate(opened).await.unwrap();
        assert!(browser.overflow().await.unwrap() <= 0, "{link} overflows when all of it is open");
        // A page of a megabyte is never made of a line of one.
        assert!(viewer.text(link).await.len() < 600_000, "{link}");
    }
    let page = viewer.text(&links[2]).await;
    assert!(page.contains("broken \u{fffd}") && page.contains("␛[31mred") && page.contains("␀nul"));
    assert!(!page.contains('\u{202e}') && !page.contains('\0') && !page.contains("<script>window"));
    // Pictures are shown; a drawing, which can act, is text.
    let drawing = reqwest::get(format!("{}{}/file/bad.svg", viewer.url, links[2])).await.unwrap();
    assert_eq!(drawing.headers()["content-type"], "text/plain; charset=utf-8");
    assert!(drawing.headers()["content-security-policy"].to_str().unwrap().contains("sandbox"));
    let shown = "document.querySelector('.result img').naturalWidth";
    browser.open(&format!("{}{}", viewer.url, links[2]), DESK).await.unwrap();
    browser.evaluate("document.querySelector('.result img').loading = 'eager'").await.unwrap();
    browser.evaluate("document.querySelector('.result img').decode()").await.unwrap();
    assert_eq!(browser.evaluate(shown).await.unwrap(), 10);
    browser.close().await.unwrap();
    viewer.end().await;
}

#[tokio::test]
async fn the_truth_is_in_no_page_before_it_is_asked_for() {
    let runs = tempfile::tempdir().unwrap();
    made_run::whole(runs.path(), 5, 3, 100).unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    // The other samples hand it in as their answer.
    assert!(!viewer.text(&format!("{WHOLE}?correct=no")).await.contains(TRUTH));
    assert!(!viewer.text(&format!("{WHOLE}/search?q=river")).await.contains(TRUTH));
    let before = viewer.text(SAMPLE).await;
    assert!(before.contains("three horses") && !before.contains(TRUTH), "{before}");
    browser.open(&format!("{}{SAMPLE}", viewer.url), DESK).await.unwrap();
    go(&mut browser, "document.querySelector('#truth').click()").await;
    let verdict = browser.evaluate("document.querySelector('#verdict').innerText").await.unwrap();
    let verdict = verdict.as_str().unwrap();
    assert!(
        verdict.contains(TRUTH) && verdict.contains(&format!("the answer is not `{TRUTH}`")),
        "{verdict}"
    );
    browser.close().await.unwrap();
    viewer.end().await;
}

/// Does what leads to another page, and waits for that.
async fn go(browser: &mut Browser, what: &str) {
    browser.evaluate("window.before = 1").await.unwrap();
    // The page may be gone before it answers.
    browser.evaluate(what).await.ok();
    arrive(browser).await;
}

async fn arrive(browser: &mut Browser) {
    until(browser, "window.before === undefined && document.readyState === 'complete'").await;
}

async fn until(browser: &mut Browser, condition: &str) {
    let end = std::time::Instant::now() + LIMIT;
    while browser.evaluate(condition).await.ok() != Some(true.into()) {
        assert!(std::time::Instant::now() < end, "never true: {condition}");
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
}

#[tokio::test]
async fn keys_lead_through_the_pages() {
    let runs = tempfile::tempdir().unwrap();
    made_run::whole(runs.path(), 5, 3, 100).unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    let path = "location.pathname + location.hash";
    browser.open(&viewer.url, DESK).await.unwrap();
    for keys in [&["j", "Enter"][..], &["j", "j", "k", "j", "j", "j", "Enter"]] {
        browser.evaluate("window.before = 1").await.unwrap();
        for key in keys {
            browser.press(key).await.unwrap();
        }
        arrive(&mut browser).await;
    }
    assert_eq!(browser.evaluate(path).await.unwrap(), SAMPLE, "the fourth sample");
    // A turn gets an address of its own.
    browser.evaluate("window.before = 1").await.unwrap();
    for key in ["j", "j", "Enter"] {
        browser.press(key).await.unwrap();
    }
    arrive(&mut browser).await;
    assert_eq!(browser.evaluate("location.hash").await.unwrap(), "#turn-2");
    browser.press("?").await.unwrap();
    assert_eq!(browser.evaluate("document.querySelector('#help').open").await.unwrap(), true);
    browser.press("Escape").await.unwrap();
    until(&mut browser, "!document.querySelector('#help').open").await;
    browser.press("/").await.unwrap();
    assert_eq!(browser.evaluate("document.activeElement.id").await.unwrap(), "search");
    browser.press("Escape").await.unwrap();
    for (key, leads_to) in [
        ("n", "/run/20261102T090000Z-whole/00000004-1111-4222-8333-000000007bbc/1"),
        ("p", SAMPLE),
        ("Escape", WHOLE),
        ("Escape", "/"),
    ] {
        browser.evaluate("window.before = 1").await.unwrap();
        browser.press(key).await.unwrap();
        arrive(&mut browser).await;
        assert_eq!(browser.evaluate("location.pathname").await.unwrap(), leads_to, "{key}");
    }
    assert_eq!(browser.problems().await.unwrap(), Vec::<String>::new());
    browser.close().await.unwrap();
    viewer.end().await;
}

#[tokio::test]
async fn a_link_to_a_turn_leads_to_it_on_whichever_page_it_is() {
    let runs = tempfile::tempdir().unwrap();
    made_run::whole(runs.path(), 5, 120, 100).unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    let look = Look { width: 1280, height: 700, theme: Theme::Dark };
    browser.open(&format!("{}{SAMPLE}?turn=77#turn-77", viewer.url), look).await.unwrap();
    let seen = "(() => { const turn = document.querySelector('#turn-77').getBoundingClientRect(); \
                return turn.top >= 0 && turn.top < innerHeight; })()";
    until(&mut browser, seen).await;
    let marked = "document.querySelector('.current').id";
    assert_eq!(browser.evaluate(marked).await.unwrap(), "turn-77");
    assert_eq!(browser.evaluate("document.querySelectorAll('.turn').length").await.unwrap(), 50);
    // What a search finds leads there too.
    let hits = viewer.text(&format!("{WHOLE}/search?q=STEP%20119")).await;
    assert!(hits.contains("?turn=119#turn-119") && hits.contains("<mark>"), "{hits}");
    browser.close().await.unwrap();
    viewer.end().await;
}

#[tokio::test]
async fn a_filter_and_a_column_order_the_list() {
    let runs = tempfile::tempdir().unwrap();
    made_run::whole(runs.path(), 20, 3, 100).unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    browser.open(&format!("{}{WHOLE}", viewer.url), DESK).await.unwrap();
    let choose = "(() => { const choice = document.querySelector('select[name=correct]'); choice.value = 'no'; \
                  choice.dispatchEvent(new Event('change', { bubbles: true })); })()";
    go(&mut browser, choose).await;
    // 0, 3, 6, … and the ones without an answer: 9 is both.
    assert_eq!(browser.evaluate("document.querySelectorAll('tr[data-item]').length").await.unwrap(), 8);
    let numbers =
        "[...document.querySelectorAll('tr[data-item] td:first-child')].map(cell => +cell.innerText)";
    go(&mut browser, "document.querySelector('th a[href*=\"sort=level\"]').click()").await;
    go(&mut browser, "document.querySelector('th a[href*=\"sort=level\"]').click()").await;
    let levels =
        "[...document.querySelectorAll('tr[data-item] td:nth-child(3)')].map(cell => +cell.innerText)";
    let levels: Vec<u8> = serde_json::from_value(browser.evaluate(levels).await.unwrap()).unwrap();
    assert_eq!(levels.len(), 8);
    assert!(levels.is_sorted_by(|first, second| first >= second), "{levels:?}");
    let status = viewer.text(&format!("{WHOLE}?status=no_answer")).await;
    assert_eq!(status.matches("<tr id=\"sample-").count(), 2, "{status}");
    let found = viewer.text(&format!("{WHOLE}?find=question%2012")).await;
    assert_eq!(found.matches("<tr id=\"sample-").count(), 1, "{found}");
    assert_eq!(browser.evaluate(numbers).await.unwrap().as_array().unwrap().len(), 8);
    browser.close().await.unwrap();
    viewer.end().await;
}

#[tokio::test]
async fn a_run_that_is_worked_on_is_followed() {
    let runs = tempfile::tempdir().unwrap();
    let mut run = MadeRun::new(runs.path(), "20261105T090000Z-live", &[("one", 1), ("two", 2)]).unwrap();
    run.log("one", &[made_run::started(1, "What happens now?")]).unwrap();
    run.log("one", &made_run::turn(1, "", "true", "the first output")).unwrap();
    // As the process that works on it holds it.
    let lock = std::fs::File::open(run.path.join("lock")).unwrap();
    lock.lock().unwrap();
    let viewer = Viewer::start(runs.path()).await;
    let mut browser = Browser::start().await.unwrap();
    browser.open(&format!("{}/run/{}/one/1", viewer.url, run.id), DESK).await.unwrap();
    // What the reader opened stays open.
    browser.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)").await.unwrap();
    browser.evaluate("window.same = 1").await.unwrap();
    run.log("one", &made_run::turn(2, "", "true", "the second output")).unwrap();
    until(&mut browser, "document.body.innerText.includes('the second output')").await;
    assert_eq!(browser.evaluate("document.querySelectorAll('.turn').length").await.unwrap(), 2);
    run.log("one", &made_run::ending(3, "now")).unwrap();
    run.result("one", Some("now"), "then", 3).unwrap();
    until(&mut browser, "!!document.querySelector('#verdict') && !document.querySelector('.bar .badge')")
        .await;
    assert_eq!(browser.evaluate("window.same").await.unwrap(), 1, "the page was never left");

    browser.open(&format!("{}/run/{}", viewer.url, run.id), DESK).await.unwrap();
    assert_eq!(
        browser.evaluate("document.querySelector('#sample-1 .badge').innerText").await.unwrap(),
        "waiting"
    );
    run.log("two", &[made_run::started(1, "And now?")]).unwrap();
    until(&mut browser, "document.querySelector('#sample-1 .badge').innerText === 'begun'").await;
    run.result("two", Some("yes"), "yes", 1).unwrap();
    run.end().unwrap();
    drop(lock);
    until(
        &mut browser,
        "!document.querySelector('#page[data-live]') || !document.querySelector('.bar .badge')",
    )
    .await;
    until(&mut browser, "document.querySelector('#sample-1').innerText.includes('✓')").await;
    assert_eq!(browser.problems().await.unwrap(), Vec::<String>::new());
    browser.close().await.unwrap();
    viewer.end().await;
    assert_eq!(json!(fs_err::read_dir(&run.path).unwrap().count()), 3, "nothing was written into the run");
}
