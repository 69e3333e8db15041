//! What can be reached from inside, in each network. The only server is the test's own, on the loopback interface; the
//! names are the test's own, too.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gaia_sandbox::{Connect, EgressOptions, Network, Resolve, Sandbox, SandboxOptions, TcpConnector};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{PLENTY, Run, engine, options, text_of};

/// Bytes of the big file.
const BIG_BYTES: usize = 100_000_000;

/// Bytes of a file that is larger than what a tunnel holds, but not by much.
const PIECE_BYTES: usize = 300_000;

/// Resolves what it was told, each time the next answer, and notes what was connected to.
#[derive(Debug)]
struct Names {
    answers: HashMap<&'static str, Vec<IpAddr>>,
    asked: AtomicUsize,
    attempts: Mutex<Vec<SocketAddr>>,
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        let found = self.answers.get(name).map(|answers| {
            let turn = if answers.len() > 1 { self.asked.fetch_add(1, Ordering::Relaxed) } else { 0 };
            vec![answers[turn.min(answers.len() - 1)]]
        });
        async move { found.ok_or_else(|| std::io::Error::other("no such name")) }.boxed()
    }
}

impl Connect for Names {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, std::io::Result<TcpStream>> {
        self.attempts.lock().unwrap().push(address);
        async move {
            // A test that would leave the machine fails instead.
            assert!(address.ip().is_loopback(), "a connection to {address}");
            TcpConnector.connect(address).await
        }
        .boxed()
    }
}

/// The test's web server: every path it was asked for, and the port.
struct Server {
    port: u16,
    paths: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let paths = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&paths);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&noted)));
            }
        });
        Self { port, paths }
    }

    fn was_asked_for(&self, path: &str) -> bool {
        self.paths.lock().unwrap().iter().any(|asked| asked.starts_with(path))
    }
}

/// Requests of one connection, until it closes.
async fn serve(stream: TcpStream, paths: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
        let path = line.split(' ').nth(1)?.to_owned();
        paths.lock().unwrap().push(path.clone());
        let mut body_bytes = 0;
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await.ok()?;
            if let Some(count) = header.to_lowercase().strip_prefix("content-length:") {
                body_bytes = count.trim().parse().unwrap();
            }
            if header == "\r\n" {
                break;
            }
        }
        let received =
            tokio::io::copy(&mut (&mut stream).take(body_bytes), &mut tokio::io::sink()).await.ok()?;
        let (status, body) = match path.as_str() {
            "/hello" => ("200 OK", b"hello".to_vec()),
            "/big" => ("200 OK", vec![b'x'; BIG_BYTES]),
            "/piece" => ("200 OK", vec![b'x'; PIECE_BYTES]),
            "/upload" => ("200 OK", received.to_string().into_bytes()),
            "/redirect" => ("302 Found\r\nLocation: http://private.test/secret", Vec::new()),
            "/never" => std::future::pending().await,
            _ => ("404 Not Found", b"nothing here".to_vec()),
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(&body).await.ok()?;
    }
}

struct Fixture {
    sandbox: Sandbox,
    server: Server,
    names: Arc<Names>,
}

/// A sandbox for which the names below exist and loopback is let through.
async fn fixture(network: Network, change: impl FnOnce(&mut SandboxOptions, u16)) -> Fixture {
    let server = Server::start().await;
    let [loopback, private, metadata] =
        ["127.0.0.1", "10.0.0.1", "169.254.169.254"].map(|text| text.parse::<IpAddr>().unwrap());
    let answers = HashMap::from([
        ("files.test", vec![loopback]),
        ("other.test", vec![loopback]),
        ("private.test", vec![private]),
        ("metadata.test", vec![metadata]),
        ("rebinding.test", vec![loopback, private]),
    ]);
    let names = Arc::new(Names { answers, asked: AtomicUsize::new(0), attempts: Mutex::default() });
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.network = network;
    let port = server.port;
    options.egress = EgressOptions {
        allow_hosts: [
            format!("files.test:{port}"),
            format!("rebinding.test:{port}"),
            "private.test".to_owned(),
        ]
        .map(|rule| rule.parse().unwrap())
        .into(),
        allow_private: vec!["127.0.0.0/8".parse().unwrap()],
        resolver: Arc::<Names>::clone(&names),
        connector: Arc::<Names>::clone(&names),
        ..EgressOptions::default()
    };
    change(&mut options, port);
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    Fixture { sandbox, server, names }
}

#[tokio::test]
async fn programs_find_the_proxy_by_themselves() {
    let Fixture { sandbox, server, .. } = fixture(Network::Allow, |_, _| {}).await;
    let base = format!("http://files.test:{}", server.port);
    assert_eq!(sandbox.says(&format!("curl -sS {base}/hello")).await, "hello");
    assert_eq!(sandbox.says(&format!("curl -sS --proxytunnel {base}/hello")).await, "hello", "by CONNECT");
    let python = format!(
        "python3 -c 'import urllib.request as r; print(r.urlopen(\"{base}/hello\").read().decode())'"
    );
    assert_eq!(sandbox.says(&python).await, "hello");
    // Neither of these finds what it looks for, but each asks for it.
    let host = format!("--trusted-host files.test --index-url {base}/simple");
    sandbox.sh(&format!("pip download --no-input --retries 0 {host} some-package")).await;
    assert!(server.was_asked_for("/simple/some-package/"), "pip");
    sandbox
        .sh(&format!(
            "echo 'deb [trusted=yes] {base}/debian bookworm main' >/tmp/sources && \
             apt-get -o Dir::Etc::sourcelist=/tmp/sources -o Dir::Etc::sourceparts=/dev/null -o Acquire::Retries=0 update"
        ))
        .await;
    assert!(server.was_asked_for("/debian/dists/bookworm/"), "apt");
    sandbox.sh(&format!("git clone {base}/repository.git /tmp/repository")).await;
    assert!(server.was_asked_for("/repository.git/info/refs"), "git");
    sandbox.sh(&format!("wget -q -O - {base}/by-wget || curl -sS {base}/by-wget")).await;
    assert!(server.was_asked_for("/by-wget"), "wget, where the image has it");
    // An operator's own words win.
    assert_eq!(sandbox.says("printenv no_proxy").await, "localhost,127.0.0.1,::1");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn what_is_not_let_through_is_refused_in_words_and_without_a_packet() {
    let Fixture { sandbox, server, names } = fixture(Network::Allow, |_, _| {}).await;
    let port = server.port;
    for (url, reason) in [
        (format!("http://other.test:{port}/hello"), "not among the hosts that are allowed (files.test:"),
        ("http://169.254.169.254/latest/meta-data".to_owned(), "not among"),
        ("http://private.test/".to_owned(), "10.0.0.1 is a private address"),
        (format!("http://127.0.0.1:{port}/hello"), "not among"),
    ] {
        // `-x`: without, `no_proxy` would keep it from asking for loopback.
        let text = format!("curl -sS --noproxy '' -x http://127.0.0.1:3128 -w '%{{http_code}}' {url}");
        let said = sandbox.says(&text).await;
        assert!(said.ends_with("403") && said.contains(reason), "{url}: {said}");
    }
    let connect = sandbox.sh("curl -sS https://private.test/ 2>&1").await;
    assert!(text_of(&connect).contains("403"), "{}", text_of(&connect));
    let python =
        "python3 -c 'import urllib.request as r; r.urlopen(\"https://private.test/\")' 2>&1 | tail -n 1";
    assert!(
        sandbox.says(python).await.contains("10.0.0.1 is a private address"),
        "the reason is in the status line"
    );
    for port in [22, 25] {
        let said = text_of(&sandbox.sh(&format!("curl -sS -p http://files.test:{port}/ 2>&1")).await);
        assert!(said.contains("403"), "{port}: {said}");
    }
    assert!(names.attempts.lock().unwrap().is_empty(), "{:?}", names.attempts);

    let rebinding = format!("curl -sS -w '%{{http_code}}' http://rebinding.test:{port}/hello");
    assert_eq!(sandbox.says(&rebinding).await, "hello200");
    let said = sandbox.says(&rebinding).await;
    assert!(said.contains("10.0.0.1 is a private address") && said.ends_with("403"), "{said}");
    let said =
        sandbox.says(&format!("curl -sS -L -w '%{{http_code}}' http://files.test:{port}/redirect")).await;
    assert!(said.contains("`private.test:80`: 10.0.0.1 is") && said.ends_with("403"), "{said}");
    let server = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(*names.attempts.lock().unwrap(), [server, server], "the first of each pair, and nothing else");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn with_all_public_hosts_private_ones_stay_out_of_reach() {
    let Fixture { sandbox, server, names } =
        fixture(Network::On, |options, _| options.egress.allow_private.clear()).await;
    for host in [
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
        "[::1]".to_owned(),
        "10.0.0.1".to_owned(),
        "169.254.169.254".to_owned(),
        "[fd00:ec2::254]".to_owned(),
        "[::ffff:169.254.169.254]".to_owned(),
        "metadata.test".to_owned(),
        "files.test".to_owned(),
        "172.17.0.1".to_owned(),
    ] {
        for mode in ["", "-p"] {
            let text = format!(
                "curl -gsS {mode} --noproxy '' -x http://127.0.0.1:3128 -o /dev/null -w '%{{http_code}} %{{http_connect}}' \
                 http://{host}:{}/hello 2>/dev/null; true",
                server.port
            );
            let said = sandbox.says(&text).await;
            // The name `localhost` has no address in this test: 502, and as unreachable.
            assert!(said.contains("403") || (host == "localhost" && said.contains("502")), "{host}: {said}");
        }
    }
    assert!(names.attempts.lock().unwrap().is_empty(), "{:?}", names.attempts);
    assert!(server.paths.lock().unwrap().is_empty());
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn host_neighbours_socket_files_and_environment_are_out_of_reach() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    fs_err::create_dir(&mine).unwrap();
    fs_err::write(folder.path().join("metadata.jsonl"), "the truth").unwrap();
    for network in [Network::Off, Network::On, Network::Allow] {
        let share = |options: &mut SandboxOptions, _: u16| options.files_dir = Some(mine.clone());
        let Fixture { sandbox, server, .. } = fixture(network, share).await;
        let neighbour = fixture(network, |_, _| {}).await.sandbox;
        assert_eq!(sandbox.says("ls /sys/class/net").await, "lo", "{network:?}");
        assert_eq!(sandbox.says("cat /proc/net/route | wc -l").await, "1", "{network:?}");
        // Directly, the host's loopback service is not there: this loopback is the container's own.
        let direct = |port: u16| format!("curl -sS --noproxy '*' -m 5 http://127.0.0.1:{port}/hello");
        assert_eq!(sandbox.sh(&direct(server.port)).await.exit_code, 7, "{network:?}");
        neighbour
            .says("python3 -m http.server 8000 >/dev/null 2>&1 & until curl -so /dev/null 127.0.0.1:8000; do sleep 0.05; done")
            .await;
        assert_eq!(sandbox.sh(&direct(8000)).await.exit_code, 7, "{network:?}");
        assert_eq!(
            sandbox.sh("curl -sS --noproxy '*' -m 5 http://1.1.1.1/").await.exit_code,
            7,
            "no way out"
        );
        assert_eq!(sandbox.sh("ls /var/run/docker.sock /run/docker.sock").await.exit_code, 2, "{network:?}");
        let beside = folder.path().join("metadata.jsonl");
        for path in ["/shared_files/../metadata.jsonl", &beside.display().to_string()] {
            assert_ne!(sandbox.sh(&format!("cat '{path}'")).await.exit_code, 0, "{network:?}: {path}");
        }
        let environment = sandbox.says("env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'").await;
        // What every process of the host has and no container does: this very test's.
        assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
        for name in ["CARGO", "NEXTEST", "GAIA"] {
            assert!(!environment.contains(name), "{network:?}: {environment}");
        }
        neighbour.close().await.unwrap();
        sandbox.close().await.unwrap();
    }
}

#[tokio::test]
async fn on_the_bridge_sandboxes_do_not_see_each_other() {
    let mut sandboxes = Vec::new();
    for _ in 0..2 {
        sandboxes.push(fixture(Network::Bridge, |_, _| {}).await.sandbox);
    }
    let address = sandboxes[0].says("hostname -i").await;
    sandboxes[0]
        .says("python3 -m http.server 8000 >/dev/null 2>&1 & until curl -so /dev/null 127.0.0.1:8000; do sleep 0.05; done")
        .await;
    assert_eq!(
        sandboxes[0].sh(&format!("curl -so /dev/null -m 5 http://{address}:8000/")).await.exit_code,
        0
    );
    let seen = sandboxes[1].sh(&format!("curl -so /dev/null -m 2 http://{address}:8000/")).await;
    assert_eq!(seen.exit_code, 28, "{}", text_of(&seen));
    assert_eq!(sandboxes[1].sh("printenv http_proxy").await.exit_code, 1);
    for sandbox in sandboxes {
        sandbox.close().await.unwrap();
    }
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    let pages = fs_err::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_big_transfer_flows_and_delays_nothing() {
    let Fixture { sandbox, server, .. } = fixture(Network::Allow, |_, _| {}).await;
    let base = format!("http://files.test:{}", server.port);
    let mut quiet = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        sandbox.says("true").await;
        quiet.push(started.elapsed());
    }
    // The server's own copy of the file is not the tunnel's.
    let before = resident_bytes() + BIG_BYTES;
    for mode in ["", "--proxytunnel"] {
        let download =
            format!("curl -sS {mode} -o /dev/null -w '%{{size_download}} %{{time_total}}' {base}/big");
        let mut download = std::pin::pin!(sandbox.says(&download));
        let (mut beside, mut most) = (Vec::new(), 0);
        let said = loop {
            let started = Instant::now();
            tokio::select! {
                said = &mut download => break said,
                _ = sandbox.says("true") => beside.push(started.elapsed()),
            }
            most = most.max(resident_bytes());
        };
        let (bytes, seconds) = said.split_once(' ').unwrap();
        assert_eq!(bytes, BIG_BYTES.to_string());
        let seconds: f64 = seconds.parse().unwrap();
        quiet.sort();
        beside.sort();
        println!(
            "download {mode}: {:.0} MB/s; `true` alone {:?}, beside it {:?} (worst {:?}, {} times); memory grew by {} MB",
            BIG_BYTES as f64 / 1e6 / seconds,
            quiet[quiet.len() / 2],
            beside[beside.len() / 2],
            beside[beside.len() - 1],
            beside.len(),
            most.saturating_sub(before) / 1_000_000
        );
        // Loose: the machine may be very busy.
        assert!(seconds < 60.0, "{seconds} s for {BIG_BYTES} bytes");
        assert!(beside[beside.len() / 2] < Duration::from_millis(500), "{beside:?}");
        assert!(most < before + (64 << 20), "grew by {} bytes", most - before);
    }
    let upload = "head -c 50000000 /dev/zero >/tmp/file && curl -sS -H Expect: -w ' %{time_total}' --data-binary @/tmp/file";
    let said = sandbox.says(&format!("{upload} {base}/upload")).await;
    let (bytes, seconds) = said.split_once(' ').unwrap();
    assert_eq!(bytes, "50000000");
    println!("upload: {:.0} MB/s", 50.0 / seconds.parse::<f64>().unwrap());
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_request_through_the_tunnel_costs_little_more_than_a_direct_one() {
    const REQUESTS: usize = 100;
    let Fixture { sandbox, server, .. } = fixture(Network::Allow, |_, _| {}).await;
    let program = format!(
        "import http.client, time\n\
         times = []\n\
         for _ in range({REQUESTS}):\n\
         \x20   start = time.perf_counter()\n\
         \x20   c = http.client.HTTPConnection('127.0.0.1', 3128)\n\
         \x20   c.request('GET', 'http://files.test:{}/hello')\n\
         \x20   assert c.getresponse().read() == b'hello'\n\
         \x20   times.append(time.perf_counter() - start)\n\
         \x20   c.close()\n\
         print(sorted(times)[len(times) // 2])\n",
        server.port
    );
    let tunnelled: f64 = sandbox.says(&format!("python3 - <<'EOF'\n{program}EOF")).await.parse().unwrap();
    let mut direct = Vec::new();
    for _ in 0..REQUESTS {
        let started = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        stream.write_all(b"GET /hello HTTP/1.1\r\n\r\n").await.unwrap();
        let mut answer = [0; 43];
        stream.read_exact(&mut answer).await.unwrap();
        assert!(answer.ends_with(b"hello"));
        direct.push(started.elapsed());
    }
    direct.sort();
    println!("a request: {:.2} ms through the tunnel, {:?} directly", tunnelled * 1e3, direct[REQUESTS / 2]);
    assert!(tunnelled < 0.25, "{tunnelled} s for a request");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_slow_program_loses_nothing_of_an_answer() {
    let Fixture { sandbox, server, .. } = fixture(Network::Allow, |_, _| {}).await;
    // By the time it reads, the proxy is long done with it.
    let program = format!(
        "import socket, time\n\
         s = socket.create_connection(('127.0.0.1', 3128))\n\
         s.sendall(b'GET http://files.test:{}/piece HTTP/1.0\\r\\n\\r\\n')\n\
         time.sleep(1)\n\
         data = b''.join(iter(lambda: s.recv(1000), b''))\n\
         print(len(data.split(b'\\r\\n\\r\\n', 1)[1]))\n",
        server.port
    );
    assert_eq!(sandbox.says(&format!("python3 - <<'EOF'\n{program}EOF")).await, PIECE_BYTES.to_string());
    // Nor does one that is refused while it still sends.
    let refused = format!("curl -sS -H Expect: --data-binary @/tmp/file http://other.test:{}/", server.port);
    let said = sandbox.says(&format!("head -c 5000000 /dev/zero >/tmp/file && {refused}")).await;
    assert!(said.contains("not among the hosts that are allowed"), "{said}");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn connections_that_say_nothing_do_not_block_the_way_out() {
    let shorten = |options: &mut SandboxOptions, _: u16| {
        options.egress.head_timeout = Duration::from_secs(2);
        options.egress.idle_timeout = Duration::from_secs(2);
    };
    let Fixture { sandbox, server, .. } = fixture(Network::Allow, shorten).await;
    // More than there may be tunnels: silent ones, half heads, and requests whose answer never comes.
    let program = format!(
        "import socket, time\n\
         open_ = []\n\
         for number in range(200):\n\
         \x20   s = socket.create_connection(('127.0.0.1', 3128))\n\
         \x20   s.sendall([b'', b'GET http://files', b'GET http://files.test:{}/never HTTP/1.1\\r\\n\\r\\n'][number % 3])\n\
         \x20   open_.append(s)\n\
         print('open', flush=True)\n\
         time.sleep(600)\n",
        server.port
    );
    sandbox.says(&format!("python3 -c \"$(cat <<'EOF'\n{program}EOF\n)\" >/tmp/said & until grep -q open /tmp/said; do sleep 0.05; done")).await;
    let answered = sandbox.within(&format!("curl -sS http://files.test:{}/hello", server.port), PLENTY).await;
    assert_eq!(text_of(&answered), "hello");
    assert!(sandbox.is_alive());
    sandbox.close().await.unwrap();
}
