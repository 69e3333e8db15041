//! Engines that are not on this machine, as far as the library can tell: the local one behind a TCP port, with and
//! without TLS, and behind ssh.

use std::sync::Arc;

use gaia_sandbox::{Engine, EngineError, Sandbox};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::support::{Run, engine, forwarded, options};

#[tokio::test]
async fn files_are_copied_to_an_engine_that_is_elsewhere() {
    let local = engine().await;
    let remote = Engine::connect_to(&forwarded(&local).await).await.unwrap();
    let mut options = options(&local).await;
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir(folder.path().join("sub")).unwrap();
    fs_err::write(folder.path().join("sub/data.csv"), "a,b\n").unwrap();
    options.files_dir = Some(folder.path().to_owned());
    let sandbox = Sandbox::start(&remote, &options).await.unwrap();
    assert_eq!(sandbox.says("cat /shared_files/sub/data.csv").await, "a,b");
    assert_eq!(sandbox.says("grep -c shared_files /proc/mounts || true").await, "0");
    sandbox.says("echo x >>/shared_files/sub/data.csv").await;
    assert_eq!(
        fs_err::read_to_string(folder.path().join("sub/data.csv")).unwrap(),
        "a,b\n",
        "only the copy changed"
    );
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn an_engine_behind_tls_wants_the_right_certificates_from_both_sides() {
    let local = engine().await;
    let ours = Authority::new();
    let address = forwarded_by_tls(&local, &ours).await;
    let remote = Engine::connect_with_tls(&address, &ours.client_folder(&ours)).await.unwrap();
    let sandbox = Sandbox::start(&remote, &options(&local).await).await.unwrap();
    assert_eq!(sandbox.says("echo through TLS").await, "through TLS");
    sandbox.close().await.unwrap();

    let theirs = Authority::new();
    for (what, folder) in [
        ("a server we do not know", theirs.client_folder(&ours)),
        ("a client it does not know", ours.client_folder(&theirs)),
    ] {
        let error = Engine::connect_with_tls(&address, &folder).await.unwrap_err();
        assert!(matches!(error, EngineError::Unreachable { .. }), "{what}: {error:?}");
        let text = error.to_string();
        assert!(text.contains("certificate") || text.contains("alert"), "{what}: {text}");
    }
    let error = Engine::connect_to(&address).await.unwrap_err();
    assert!(matches!(error, EngineError::Unreachable { .. }), "without TLS: {error:?}");
}

/// Somebody who signs certificates.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, folder: tempfile::tempdir().unwrap() }
    }

    /// A certificate for the loopback interface, and its key.
    fn sign(&self) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A folder as DOCKER_CERT_PATH names it: this authority is trusted, and the client's certificate is `signer`'s.
    fn client_folder(&self, signer: &Self) -> std::path::PathBuf {
        let (certificate, key) = signer.sign();
        let name = format!("client-of-{:p}", std::ptr::from_ref(signer));
        let folder = self.folder.path().join(name);
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("ca.pem"), self.issuer.pem()).unwrap();
        fs_err::write(folder.join("cert.pem"), certificate.pem()).unwrap();
        fs_err::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        folder
    }
}

/// Forwards a port of the loopback interface to the engine's socket, for clients with a certificate of the authority's.
async fn forwarded_by_tls(engine: &Engine, authority: &Authority) -> String {
    let socket = engine.address().strip_prefix("unix://").expect("a local engine").to_owned();
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from(authority.issuer.der().to_vec())).unwrap();
    let clients = WebPkiClientVerifier::builder(Arc::new(trusted)).build().unwrap();
    let (certificate, key) = authority.sign();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, socket) = (acceptor.clone(), socket.clone());
            tokio::spawn(async move {
                if let Ok(mut client) = acceptor.accept(client).await {
                    let mut engine = UnixStream::connect(socket).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
                }
            });
        }
    });
    address
}
