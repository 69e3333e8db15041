//! Attempts to reach what must not be reached. All are refused before a connection is made: a tripwire sits where
//! connections begin, and fails the ones that nobody allowed, so that no packet leaves even when a test fails.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use gaia_mcp_servers::toolset::Log;
use gaia_mcp_servers::web::block_list::BlockList;
use gaia_mcp_servers::web::client::{Ask, Limits, Page, Proxies, WebClient, WebOptions};
use gaia_mcp_servers::web::error::WebError;
use gaia_mcp_servers::web::guard::{Guard, Proxied};
use gaia_mcp_servers::web::robots::RobotsRule;
use gaia_sandbox::Resolve;
use reqwest::dns::Resolve as _;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Layer, Service};

use crate::site::{Site, html, redirect, with_headers};

/// Counts connections, and lets only the first ones through.
#[derive(Clone)]
struct Tripwire {
    made: Arc<AtomicUsize>,
    allowed: usize,
}

impl Tripwire {
    fn new(allowed: usize) -> Self {
        Self { made: Arc::default(), allowed }
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}

impl<S> Layer<S> for Tripwire {
    type Service = Tripped<S>;

    fn layer(&self, inner: S) -> Tripped<S> {
        Tripped { inner, wire: self.clone() }
    }
}

#[derive(Clone)]
struct Tripped<S> {
    inner: S,
    wire: Tripwire,
}

impl<S, R> Service<R> for Tripped<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        if self.wire.made.fetch_add(1, Ordering::SeqCst) >= self.wire.allowed {
            return async { Err::<S::Response, BoxError>("the tripwire".into()) }.boxed();
        }
        self.inner.call(request).boxed()
    }
}

/// Answers each look-up with the next of some lists, the last of them for ever.
#[derive(Debug, Default)]
struct Names {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Names {
    fn of(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: answers.iter().map(parse).collect(), asked: AtomicUsize::default() })
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers.get(asked).or(self.answers.last()).cloned();
        async move { answer.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "unknown name")) }.boxed()
    }
}

struct Set {
    allowed: Vec<&'static str>,
    names: Arc<Names>,
    proxy: Option<String>,
    wire: Tripwire,
}

impl Set {
    fn new() -> Self {
        Self { allowed: Vec::new(), names: Arc::default(), proxy: None, wire: Tripwire::new(0) }
    }

    async fn get(&self, url: &str) -> Result<Page, WebError> {
        let refuse = |reason| WebError::Refused { url: url.to_owned(), reason };
        let parsed = Guard::parse(url).map_err(refuse)?;
        let options = WebOptions {
            allowed: self.allowed.iter().map(|range| range.parse().unwrap()).collect(),
            resolver: self.names.clone(),
            proxies: Proxies::new(self.proxy.as_deref(), |_| None).unwrap(),
            block_list: Arc::new(BlockList::default()),
            cache: None,
            limits: Limits { body_bytes: 1_000_000, time: Duration::from_secs(60) },
        };
        let builder = reqwest::Client::builder().connector_layer(self.wire.clone());
        let client = WebClient::with_builder(options, builder).unwrap();
        let ask = Ask {
            url: parsed,
            user_agent: "test/1",
            robots: RobotsRule::Ignore,
            cancel: &CancellationToken::new(),
            log: &Log::default(),
        };
        client.get(&ask).await
    }
}

fn assert_refused(result: Result<Page, WebError>, what: &str) {
    match result {
        Err(WebError::Refused { .. }) => {}
        other => panic!("{what} was not refused: {other:?}"),
    }
}

/// What the address itself tells.
async fn literal_is_refused(url: &str) {
    let set = Set::new();
    assert_refused(set.get(url).await, url);
    assert_eq!(set.wire.made(), 0, "{url} led to a connection");
}

macro_rules! literals {
    ($($name:ident: $url:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            literal_is_refused($url).await;
        })*
    };
}

literals! {
    loopback: "http://127.0.0.1/";
    loopback_other: "http://127.9.8.7:8080/";
    loopback_short: "http://127.1/";
    loopback_decimal: "http://2130706433/";
    loopback_hexadecimal: "http://0x7f000001/";
    loopback_hexadecimal_parts: "http://0x7f.0x0.0x0.0x1/";
    loopback_octal: "http://0177.0.0.1/";
    loopback_octal_whole: "http://017700000001/";
    loopback_mixed: "http://0x7f.1/";
    loopback_wide_digits: "http://１２７.０.０.１/";
    loopback_circled_digits: "http://①②⑦.⓪.⓪.①/";
    loopback_encoded: "http://%31%32%37%2e0.0.1/";
    loopback_dot_at_the_end: "http://127.0.0.1./";
    loopback_ideographic_stops: "http://127。0。0。1/";
    unspecified: "http://0.0.0.0/";
    unspecified_short: "http://0/";
    private_ten: "http://10.0.0.1/";
    private_172: "http://172.16.0.1/";
    private_192: "http://192.168.1.1/";
    private_decimal: "http://3232235777/";
    carrier: "http://100.64.0.1/";
    link_local: "http://169.254.1.1/";
    metadata: "http://169.254.169.254/latest/meta-data/";
    metadata_decimal: "http://2852039166/";
    metadata_of_another_cloud: "http://100.100.100.200/";
    metadata_by_fabric: "http://168.63.129.16/";
    multicast: "http://224.0.0.1/";
    broadcast: "http://255.255.255.255/";
    documentation: "http://192.0.2.1/";
    benchmarking: "http://198.18.0.1/";
    v6_loopback: "http://[::1]/";
    v6_unspecified: "http://[::]/";
    v6_mapped: "http://[::ffff:127.0.0.1]/";
    v6_mapped_hexadecimal: "http://[::ffff:7f00:1]/";
    v6_mapped_metadata: "http://[::ffff:a9fe:a9fe]/";
    v6_compatible: "http://[::127.0.0.1]/";
    v6_nat64: "http://[64:ff9b::7f00:1]/";
    v6_nat64_private: "http://[64:ff9b::10.0.0.1]/";
    v6_6to4: "http://[2002:7f00:1::]/";
    v6_teredo: "http://[2001:0:7f00:1::]/";
    v6_unique_local: "http://[fd00::1]/";
    v6_metadata: "http://[fd00:ec2::254]/";
    v6_link_local: "http://[fe80::1]/";
    v6_site_local: "http://[fec0::1]/";
    v6_multicast: "http://[ff02::1]/";
    v6_long_form: "http://[0000:0000:0000:0000:0000:0000:0000:0001]/";
    behind_a_user: "http://public.example@127.0.0.1/";
    behind_a_password: "http://a:b@127.0.0.1/";
    behind_a_backslash: "http://127.0.0.1\\@public.example/";
    behind_tabs: "http://127.0.\t0.1/";
    other_case: "HTTP://127.0.0.1/";
    file: "file:///etc/passwd";
    ftp: "ftp://127.0.0.1/";
    gopher: "gopher://127.0.0.1:6379/_FLUSHALL";
    data: "data:text/html,<p>x";
    javascript: "javascript:alert(1)";
    unix_socket: "unix:///var/run/docker.sock";
    no_scheme: "//127.0.0.1/";
}

/// What a name leads to. The resolver is asked as the HTTP client asks it, without a client.
async fn name_is_refused(addresses: &[&str]) {
    let guard = Guard::new(Vec::new(), Names::of(&[addresses]), Proxied::No);
    let resolver = guard.resolver(std::collections::BTreeSet::new());
    let answer = resolver.resolve("name.example".parse().unwrap()).await;
    let error = answer.err().unwrap_or_else(|| panic!("{addresses:?} were handed out")).to_string();
    assert!(error.contains("name.example resolves to") && error.contains("not a public address"), "{error}");
    // Behind a proxy the same is found out beforehand.
    let proxied =
        Set { names: Names::of(&[addresses]), proxy: Some("http://127.0.0.1:9".to_owned()), ..Set::new() };
    assert_refused(proxied.get("http://name.example/").await, "a proxied name");
    assert_eq!(proxied.wire.made(), 0);
}

macro_rules! names {
    ($($name:ident: $addresses:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            name_is_refused(&$addresses).await;
        })*
    };
}

names! {
    name_of_loopback: ["127.0.0.1"];
    name_of_metadata: ["169.254.169.254"];
    name_of_a_private_network: ["192.168.0.10"];
    name_of_mapped_loopback: ["::ffff:127.0.0.1"];
    name_of_v6_loopback: ["::1"];
    name_of_nat64: ["64:ff9b::a00:1"];
    name_of_a_public_and_a_private_address: ["93.184.216.34", "10.0.0.1"];
    name_of_unspecified: ["0.0.0.0"];
}

#[tokio::test]
async fn a_public_name_gets_exactly_the_addresses_that_were_checked() {
    let guard = Guard::new(Vec::new(), Names::of(&[&["93.184.216.34"], &["127.0.0.1"]]), Proxied::No);
    let resolver = guard.resolver(std::collections::BTreeSet::new());
    let first = resolver.resolve("name.example".parse().unwrap()).await.unwrap();
    let first: Vec<IpAddr> = first.map(|address| address.ip()).collect();
    assert_eq!(first, ["93.184.216.34".parse::<IpAddr>().unwrap()]);
    // The name has changed since: what it leads to now is checked anew.
    assert!(resolver.resolve("name.example".parse().unwrap()).await.is_err());
}

#[tokio::test]
async fn a_name_that_changes_between_requests_gains_nothing() {
    let close = [("Content-Type", "text/html"), ("Connection", "close")];
    let reply = with_headers(200, &close, "<p>first");
    let site = Site::start(move |_| reply.clone()).await;
    let set = Set {
        allowed: vec!["127.0.0.1"],
        names: Names::of(&[&["127.0.0.1"], &["127.0.0.2"]]),
        wire: Tripwire::new(9),
        ..Set::new()
    };
    let url = format!("http://name.example:{}/", site.address.port());
    assert!(set.get(&url).await.is_ok());
    assert_refused(set.get(&url).await, "the changed name");
    assert_eq!(site.asked().len(), 1);
}

/// Where a page that may be read sends us.
async fn redirect_is_refused(to: &'static str) {
    let site =
        Site::start(move |asked| if asked.target == "/" { redirect(to) } else { html("<p>reached") }).await;
    let set = Set { allowed: vec!["127.0.0.1"], wire: Tripwire::new(1), ..Set::new() };
    assert_refused(set.get(&site.url("/")).await, to);
    assert_eq!((set.wire.made(), site.asked().len()), (1, 1), "{to}");
}

macro_rules! redirects {
    ($($name:ident: $to:expr;)*) => {
        $(#[tokio::test]
        async fn $name() {
            redirect_is_refused($to).await;
        })*
    };
}

redirects! {
    redirect_to_another_loopback: "http://127.0.0.2/";
    redirect_to_decimal: "http://2130706434/";
    redirect_to_v6: "http://[::1]/";
    redirect_to_mapped: "http://[::ffff:127.0.0.2]/";
    redirect_to_metadata: "http://169.254.169.254/";
    redirect_to_private_without_scheme: "//10.0.0.1/";
    redirect_to_a_file: "file:///etc/passwd";
    redirect_to_gopher: "gopher://127.0.0.2:6379/_X";
}

#[tokio::test]
async fn a_chain_of_redirects_is_checked_at_each_hop() {
    let site = Site::start(|asked| match asked.target.as_str() {
        "/" => redirect("/two"),
        "/two" => redirect("/three"),
        _ => redirect("http://10.0.0.1/"),
    })
    .await;
    let set = Set { allowed: vec!["127.0.0.1"], wire: Tripwire::new(1), ..Set::new() };
    assert_refused(set.get(&site.url("/")).await, "the last hop");
    assert_eq!(site.targets(), ["/", "/two", "/three"]);
}

#[tokio::test]
async fn through_a_proxy_private_literals_are_refused_and_unknown_names_are_its_business() {
    let proxy = Site::start(|_| html("<p>from the proxy")).await;
    let set = |wire| Set { proxy: Some(format!("http://{}", proxy.address)), wire, ..Set::new() };
    for url in ["http://127.0.0.1/", "http://2130706433/", "http://[::1]/", "http://169.254.169.254/"] {
        let set = set(Tripwire::new(0));
        assert_refused(set.get(url).await, url);
        assert_eq!(set.wire.made(), 0);
    }
    let page = set(Tripwire::new(1)).get("http://frozen.example/page").await.unwrap();
    assert_eq!(&page.body[..], b"<p>from the proxy");
    assert_eq!(proxy.targets(), ["http://frozen.example/page"]);
}

#[tokio::test]
async fn what_the_operator_allows_is_allowed_and_no_more() {
    let site = Site::of(&[("/", html("<p>here"))]).await;
    let allowed = Set { allowed: vec!["127.0.0.0/31"], wire: Tripwire::new(9), ..Set::new() };
    assert!(allowed.get(&site.url("/")).await.is_ok());
    assert_refused(allowed.get("http://127.0.0.2/").await, "the neighbour");
    let mapped = format!("http://[::ffff:127.0.0.1]:{}/", site.address.port());
    assert!(allowed.get(&mapped).await.is_ok(), "the same address in another notation");
}
