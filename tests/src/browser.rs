//! Chromium without a screen, driven over its DevTools pipe: what a page looks like, says and does.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Much longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Of a navigation that Chromium gives up because some program on the machine added a network interface.
const NAVIGATIONS: u32 = 5;

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub width: u32,
    pub height: u32,
    pub theme: Theme,
}

/// What the system asks pages for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// A desk and a phone, by day and by night.
pub const LOOKS: [Look; 4] = [
    Look { width: 1280, height: 900, theme: Theme::Light },
    Look { width: 1280, height: 900, theme: Theme::Dark },
    Look { width: 390, height: 844, theme: Theme::Light },
    Look { width: 390, height: 844, theme: Theme::Dark },
];

/// One Chromium with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: String,
    last_id: u64,
    /// What a page should not do since it was opened: errors on its console, exceptions, refusals of its policy, dialogs,
    /// requests for other places.
    problems: Vec<String>,
    /// Where the page may ask: the beginning of its address.
    home: String,
    has_loaded: bool,
    _profile: TempDir,
}

impl Browser {
    /// # Errors
    /// When there is no Chromium (`.ci/setup servers` installs it), or it does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let profile = tempfile::tempdir()?;
        // It takes requests on descriptor 3 and answers on 4, which a shell has no trouble to arrange.
        let mut child = Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"])
            .arg(chromium()?)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-first-run",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            // As root, as in CI, Chromium does not start with it.
            .arg("--no-sandbox")
            // No name is resolved, so that nothing reaches further than this machine.
            .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
            .args([
                "--disable-dev-shm-usage",
                "--force-color-profile=srgb",
                "--disable-background-networking",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let requests = child.stdin.take().context("no pipe to Chromium")?;
        let answers = BufReader::new(child.stdout.take().context("no pipe from Chromium")?);
        let mut browser = Self {
            child,
            requests,
            answers,
            session: String::new(),
            last_id: 0,
            problems: Vec::new(),
            home: String::new(),
            has_loaded: false,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" })).await?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach).await?;
        session["sessionId"].as_str().context("no session")?.clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(browser)
    }

    /// Shows a page and waits until it has loaded.
    ///
    /// # Errors
    /// When it cannot be shown.
    pub async fn open(&mut self, url: &str, look: Look) -> anyhow::Result<()> {
        self.look(look).await?;
        for attempt in 1..=NAVIGATIONS {
            self.problems.clear();
            self.has_loaded = false;
            self.home = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
            let shown = self.call("Page.navigate", json!({ "url": url })).await?;
            match shown["errorText"].as_str() {
                Some(error) if attempt == NAVIGATIONS => bail!("failed to open {url}: {error}"),
                Some(_) => {}
                None => break,
            }
        }
        while !self.has_loaded {
            self.receive().await?;
        }
        // Two frames later everything is laid out and its first scripts have run.
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
        )
        .await?;
        Ok(())
    }

    /// Another size and theme for the page that is shown.
    ///
    /// # Errors
    /// When Chromium does not answer.
    pub async fn look(&mut self, look: Look) -> anyhow::Result<()> {
        let size =
            json!({ "width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size).await?;
        let theme = json!({ "name": "prefers-color-scheme", "value": look.theme.name() });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [theme] })).await?;
        Ok(())
    }

    /// The value of an expression, a promise's when it is kept.
    ///
    /// # Errors
    /// When the expression throws.
    pub async fn evaluate(&mut self, expression: &str) -> anyhow::Result<Value> {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let answer = self.call("Runtime.evaluate", asked).await?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            bail!("`{expression:.200}` threw {thrown}");
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Presses a key, such as `j`, `Enter` or `Escape`.
    ///
    /// # Errors
    /// When Chromium does not answer.
    pub async fn press(&mut self, key: &str) -> anyhow::Result<()> {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            key => key.chars().next().map_or(0, |first| u32::from(first.to_ascii_uppercase())),
        };
        let mut down = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        let text = if key == "Enter" { "\r" } else { key };
        if text.chars().count() == 1 {
            down["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", down).await?;
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.call("Input.dispatchKeyEvent", up).await?;
        Ok(())
    }

    /// What the page did since it was opened and should not have done.
    ///
    /// # Errors
    /// When Chromium does not answer.
    pub async fn problems(&mut self) -> anyhow::Result<Vec<String>> {
        // Events come in order: what happened before is known when this is answered.
        self.evaluate("1").await?;
        Ok(self.problems.clone())
    }

    /// How many pixels the page is wider than its window.
    ///
    /// # Errors
    /// When Chromium does not answer.
    pub async fn overflow(&mut self) -> anyhow::Result<i64> {
        let root = "document.documentElement";
        let wider = self.evaluate(&format!("{root}.scrollWidth - {root}.clientWidth")).await?;
        wider.as_i64().context("no width")
    }

    /// Writes a picture of the window as PNG.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub async fn screenshot(&mut self, path: &Path) -> anyhow::Result<()> {
        let picture = self
            .call("Page.captureScreenshot", json!({ "format": "png", "optimizeForSpeed": false }))
            .await?;
        let bytes = STANDARD.decode(picture["data"].as_str().context("no picture")?)?;
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        fs_err::write(path, bytes)?;
        Ok(())
    }

    /// The page as it is printed: a PDF.
    ///
    /// # Errors
    /// When it cannot be printed.
    pub async fn print(&mut self) -> anyhow::Result<Vec<u8>> {
        let printed = self.call("Page.printToPDF", json!({ "printBackground": true })).await?;
        Ok(STANDARD.decode(printed["data"].as_str().context("no PDF")?)?)
    }

    /// Ends it and everything that it started.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn close(mut self) -> anyhow::Result<()> {
        self.session.clear();
        // It may be gone before it answers.
        self.call("Browser.close", json!({})).await.ok();
        tokio::time::timeout(LIMIT, self.child.wait()).await.context("Chromium does not end")??;
        Ok(())
    }

    async fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).await?;
        loop {
            let mut answer = self.receive().await.with_context(|| format!("no answer to {method}"))?;
            if answer["id"] == id {
                if let Some(error) = answer.get("error") {
                    bail!("{method} failed: {error}");
                }
                return Ok(answer["result"].take());
            }
        }
    }

    /// The next message, of which an event is noted.
    async fn receive(&mut self) -> anyhow::Result<Value> {
        let mut bytes = Vec::new();
        let reading = self.answers.read_until(0, &mut bytes);
        tokio::time::timeout(LIMIT, reading).await.context("Chromium is silent")??;
        if bytes.pop() != Some(0) {
            let mut rest = Vec::new();
            self.answers.read_to_end(&mut rest).await?;
            bail!("Chromium has ended");
        }
        let message: Value = serde_json::from_slice(&bytes)?;
        if let Some(method) = message["method"].as_str() {
            self.note(method, &message["params"]).await?;
        }
        Ok(message)
    }

    async fn note(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        match method {
            "Page.loadEventFired" => self.has_loaded = true,
            "Runtime.exceptionThrown" => {
                self.problems.push(format!("exception: {}", params["exceptionDetails"]))
            }
            "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "assert" => {
                self.problems.push(format!("console: {}", params["args"]));
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.problems.push(format!("log: {}", params["entry"]));
            }
            "Page.javascriptDialogOpening" => {
                self.problems.push(format!("dialog: {}", params["message"]));
                // Until somebody answers, the page stands still.
                self.last_id += 1;
                let answer = json!({ "id": self.last_id, "method": "Page.handleJavaScriptDialog", "params": { "accept": false }, "sessionId": self.session });
                self.requests.write_all(format!("{answer}\0").as_bytes()).await?;
            }
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                let is_own =
                    url.starts_with(&self.home) || url.starts_with("data:") || url.starts_with("about:");
                if !is_own {
                    self.problems.push(format!("request: {url:.200}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Where it is on the PATH of the tests.
fn chromium() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| ["chromium", "chromium-browser"].map(|name| folder.join(name)))
        .find(|path| path.is_file())
        .context("no Chromium is installed; run `.ci/setup servers`")
}
