use std::collections::HashMap;
use std::sync::Mutex;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

/// Answers from a list: the next answer of a name each time it is asked, the last one for ever.
#[derive(Debug, Default)]
struct FakeResolver {
    names: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Resolve for FakeResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let before = asked.iter().filter(|earlier| *earlier == name).count();
        asked.push(name.to_owned());
        let answers = self.names.get(name);
        let answer = answers.and_then(|answers| answers.get(before).or(answers.last())).cloned();
        async move { answer.ok_or_else(|| io::Error::other("no such name")) }.boxed()
    }
}

/// Notes where it was to connect to, and connects to a server of the test instead.
#[derive(Debug)]
struct FakeConnector {
    server: SocketAddr,
    attempts: Mutex<Vec<SocketAddr>>,
}

impl Connect for FakeConnector {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        self.attempts.lock().unwrap().push(address);
        TcpStream::connect(self.server).boxed()
    }
}

struct Fixture {
    egress: Egress,
    resolver: Arc<FakeResolver>,
    connector: Arc<FakeConnector>,
    /// Heads that the server was sent.
    heads: mpsc::UnboundedReceiver<String>,
}

/// A server that answers every head with the given text and closes.
async fn server(answer: &'static str) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            let _ = heads.send(String::from_utf8(head).unwrap());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, received)
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

async fn fixture(network: Network, change: impl FnOnce(&mut EgressOptions)) -> Fixture {
    let (server, heads) = server(HELLO).await;
    let names = [
        ("public.test", vec![vec![address("1.1.1.1"), address("2606:4700::1")]]),
        ("www.public.test", vec![vec![address("1.1.1.2")]]),
        ("private.test", vec![vec![address("10.0.0.1")]]),
        ("mixed.test", vec![vec![address("1.1.1.1"), address("192.168.0.1")]]),
        ("metadata.test", vec![vec![address("169.254.169.254")]]),
        ("mapped.test", vec![vec![address("::ffff:127.0.0.1")]]),
        ("nat64.test", vec![vec![address("64:ff9b::10.0.0.1")]]),
        ("localhost", vec![vec![address("127.0.0.1")]]),
        ("rebinding.test", vec![vec![address("1.1.1.1")], vec![address("127.0.0.1")]]),
        ("proxy.test", vec![vec![address("10.9.9.9")]]),
        ("empty.test", vec![vec![]]),
    ];
    let resolver = Arc::new(FakeResolver { names: names.into(), asked: Mutex::default() });
    let connector = Arc::new(FakeConnector { server, attempts: Mutex::default() });
    let mut options = EgressOptions {
        resolver: Arc::<FakeResolver>::clone(&resolver),
        connector: Arc::<FakeConnector>::clone(&connector),
        ..EgressOptions::default()
    };
    change(&mut options);
    Fixture { egress: Egress::new(network, &options).unwrap(), resolver, connector, heads }
}

impl Fixture {
    /// What the proxy answers until it hangs up.
    async fn ask(&self, request: &str) -> String {
        let (mut client, far) = tokio::io::duplex(4096);
        let request = request.to_owned();
        // Owns its end, so that it hangs up when it has read the other's end.
        let talk = async move {
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            String::from_utf8(answer).unwrap()
        };
        tokio::join!(self.egress.serve(far), talk).1
    }

    async fn get(&self, url: &str) -> String {
        self.ask(&format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
    }

    async fn connect_to(&self, authority: &str) -> String {
        let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        // What follows goes to the server, which answers and hangs up.
        self.ask(&format!("{request}ping\r\n\r\n")).await
    }

    fn attempts(&self) -> Vec<String> {
        self.connector.attempts.lock().unwrap().iter().map(ToString::to_string).collect()
    }
}

#[tokio::test]
async fn what_is_not_public_is_refused_before_anything_is_sent() {
    let fixture = fixture(Network::On, |_| {}).await;
    for (host, reason) in [
        ("169.254.169.254", "metadata"),
        ("[fd00:ec2::254]", "metadata"),
        ("127.0.0.1", "loopback"),
        ("[::1]", "loopback"),
        ("[::ffff:127.0.0.1]", "loopback"),
        ("[::ffff:a00:1]", "private"),
        ("[64:ff9b::7f00:1]", "loopback"),
        ("10.0.0.1", "private"),
        ("172.17.0.1", "private"),
        ("100.64.0.1", "private"),
        ("169.254.1.1", "link-local"),
        ("0.0.0.0", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("127.1", "four decimal"),
        ("2130706433", "four decimal"),
        ("0x7f.0.0.1", "four decimal"),
        ("0x7f000001", "four decimal"),
        ("localhost", "loopback"),
        ("LOCALHOST.", "loopback"),
        ("private.test", "private"),
        ("mixed.test", "192.168.0.1 is a private"),
        ("metadata.test", "metadata"),
        ("mapped.test", "loopback"),
        ("nat64.test", "private"),
    ] {
        for answer in [
            fixture.get(&format!("http://{host}/latest/meta-data")).await,
            fixture.connect_to(&format!("{host}:443")).await,
        ] {
            let line = answer.lines().next().unwrap_or_default();
            assert!(line.starts_with("HTTP/1.1 403 the sandbox may not reach"), "{host}: {answer}");
            assert!(line.contains(reason), "{host}: {line}");
        }
    }
    assert_eq!(fixture.attempts(), Vec::<String>::new());
}

#[tokio::test]
async fn ports_of_other_services_are_refused() {
    let fixture = fixture(Network::On, |_| {}).await;
    for port in [1, 22, 25, 53, 445, 993] {
        let answer = fixture.connect_to(&format!("public.test:{port}")).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{port}: {answer}");
    }
    assert_eq!(fixture.attempts(), Vec::<String>::new());
    assert!(fixture.resolver.asked.lock().unwrap().is_empty(), "not even the name was looked up");
    for port in [80, 443, 8080] {
        let answer = fixture.connect_to(&format!("public.test:{port}")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{port}: {answer}");
    }
    assert_eq!(fixture.attempts(), ["1.1.1.1:80", "1.1.1.1:443", "1.1.1.1:8080"]);
}

#[tokio::test]
async fn with_a_list_only_what_is_on_it_is_reached() {
    let fixture = fixture(Network::Allow, |options| {
        options.allow_hosts =
            ["public.test", "*.public.test:8443", "private.test"].map(|rule| rule.parse().unwrap()).into();
    })
    .await;
    assert!(fixture.get("http://public.test/").await.ends_with("hello"));
    assert!(fixture.connect_to("WWW.public.test.:8443").await.ends_with("hello"));
    assert_eq!(fixture.attempts(), ["1.1.1.1:80", "1.1.1.2:8443"]);
    for authority in ["public.test:22", "www.public.test:443", "mixed.test:443", "1.1.1.1:443"] {
        let answer = fixture.connect_to(authority).await;
        let expected = "not among the hosts that are allowed (public.test, *.public.test:8443, private.test)";
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains(expected), "{authority}: {answer}");
    }
    let answer = fixture.connect_to("private.test:443").await;
    assert!(
        answer.contains("10.0.0.1 is a private address"),
        "being on the list does not make it public: {answer}"
    );
    assert_eq!(fixture.attempts().len(), 2);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_connected_to_where_it_was_checked_or_not_at_all() {
    let fixture = fixture(Network::On, |_| {}).await;
    assert!(fixture.get("http://rebinding.test/").await.ends_with("hello"));
    assert_eq!(fixture.attempts(), ["1.1.1.1:80"]);
    assert_eq!(
        fixture.resolver.asked.lock().unwrap().len(),
        1,
        "asked once: there is no second answer to fall for"
    );
    assert!(fixture.get("http://rebinding.test/").await.starts_with("HTTP/1.1 403 "));
    assert_eq!(fixture.attempts(), ["1.1.1.1:80"]);
}

#[tokio::test]
async fn every_request_of_a_connection_is_decided_about() {
    let fixture = fixture(Network::On, |_| {}).await;
    let answers = fixture
        .ask(
            "GET http://public.test/ HTTP/1.1\r\nHost: public.test\r\n\r\n\
             GET http://private.test/ HTTP/1.1\r\nHost: public.test\r\n\r\n",
        )
        .await;
    assert!(answers.starts_with("HTTP/1.1 200 OK"), "{answers}");
    assert!(answers.contains("helloHTTP/1.1 403 the sandbox may not reach `private.test:80`"), "{answers}");
    assert_eq!(fixture.attempts(), ["1.1.1.1:80"]);
}

#[tokio::test]
async fn a_private_range_can_be_opened() {
    let fixture =
        fixture(Network::On, |options| options.allow_private = vec!["10.0.0.0/8".parse().unwrap()]).await;
    assert!(fixture.get("http://private.test:8000/").await.ends_with("hello"));
    assert!(fixture.get("http://10.1.1.1/").await.ends_with("hello"));
    assert_eq!(fixture.attempts(), ["10.0.0.1:8000", "10.1.1.1:80"]);
    assert!(fixture.get("http://localhost/").await.contains("403 "));
}

#[tokio::test]
async fn the_server_is_asked_for_the_host_that_was_decided_about() {
    let mut fixture = fixture(Network::On, |_| {}).await;
    let request = "GET http://public.test:8080/a?b=c HTTP/1.1\r\nHost: private.test\r\nConnection: close, X-Secret\r\n\
                   X-Secret: 1\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nX-Kept: yes\r\n\r\n";
    assert!(fixture.ask(request).await.ends_with("hello"));
    let head = fixture.heads.recv().await.unwrap().to_lowercase();
    assert!(head.starts_with("get /a?b=c http/1.1\r\n"), "{head}");
    assert!(head.contains("host: public.test:8080\r\n") && head.contains("x-kept: yes\r\n"), "{head}");
    for gone in ["private.test", "x-secret", "proxy-"] {
        assert!(!head.contains(gone), "{gone}: {head}");
    }
}

#[tokio::test]
async fn what_no_proxy_can_serve_says_why() {
    let fixture = fixture(Network::On, |_| {}).await;
    for (request, status, text) in [
        ("GET / HTTP/1.1\r\nHost: public.test\r\n\r\n", 400, "this is a proxy"),
        ("GET ftp://public.test/ HTTP/1.1\r\nHost: x\r\n\r\n", 400, "CONNECT"),
        (
            "GET http://absent.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
            502,
            "no address was found for `absent.test`",
        ),
        ("GET http://empty.test/ HTTP/1.1\r\nHost: x\r\n\r\n", 502, "no address was found for `empty.test`"),
        ("\u{1}\u{2} nonsense\r\n\r\n", 400, ""),
    ] {
        let answer = fixture.ask(request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(text),
            "{request}: {answer}"
        );
    }
    assert_eq!(fixture.attempts(), Vec::<String>::new());
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let fixture = fixture(Network::On, |options| options.head_timeout = Duration::from_millis(50)).await;
    for request in ["", "GET http://public.test/ HTTP/1.1\r\nX: ", "GET"] {
        // Returns, because the proxy hangs up.
        fixture.ask(request).await;
    }
    let endless = format!("GET http://public.test/ HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    let (mut client, far) = tokio::io::duplex(4096);
    let (_, sent) = tokio::join!(fixture.egress.serve(far), client.write_all(endless.as_bytes()));
    assert!(sent.is_err(), "it was read to its end");
    assert_eq!(fixture.attempts(), Vec::<String>::new());
}

#[tokio::test]
async fn a_proxy_of_the_host_is_gone_through() {
    let mut fixture = fixture(Network::On, |options| {
        let proxy = Some("http://me:secret@proxy.test:3129".parse().unwrap());
        let exceptions = vec!["www.public.test".to_owned()];
        options.upstream = UpstreamProxies { http: proxy.clone(), https: proxy, exceptions };
    })
    .await;
    assert!(fixture.get("http://unknown.test/a").await.ends_with("hello"));
    let head = fixture.heads.recv().await.unwrap().to_lowercase();
    assert!(head.starts_with("get http://unknown.test/a http/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{head}");
    fixture.connect_to("unknown.test:443").await;
    let head = fixture.heads.recv().await.unwrap().to_lowercase();
    assert!(head.starts_with("connect unknown.test:443 http/1.1\r\n"), "{head}");
    assert!(head.contains("proxy-authorization: basic bwu6c2vjcmv0\r\n"), "{head}");
    assert_eq!(fixture.attempts(), ["10.9.9.9:3129", "10.9.9.9:3129"], "the host's own proxy may be private");
    assert!(fixture.get("http://www.public.test/").await.ends_with("hello"));
    assert_eq!(fixture.attempts()[2], "1.1.1.2:80");
    // What can be told without looking a name up is refused still.
    for host in [
        "169.254.169.254",
        "localhost",
        "a.localhost",
        "metadata.google.internal",
        "printer",
        "[::1]",
        "nas.local",
    ] {
        let answer = fixture.connect_to(&format!("{host}:443")).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{host}: {answer}");
    }
    assert_eq!(fixture.attempts().len(), 3);
}
