//! The two things the proxy asks of the machine it runs on, so that tests can answer instead.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

/// Finds the addresses of names.
pub trait Resolve: Debug + Send + Sync {
    /// Every address of a name. All of them are checked, and only those are connected to.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Connects to addresses.
pub trait Connect: Debug + Send + Sync {
    /// Opens a connection to an address that has been checked.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// The resolver of the system: `/etc/hosts`, DNS, and what else it is set up with.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) }
            .boxed()
    }
}

/// TCP from this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl Connect for TcpConnector {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        }
        .boxed()
    }
}
