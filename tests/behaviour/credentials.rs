//! Credentials that can't be had, or can be had no more, by the client's own search for them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use spindle::{CancellationToken, Database, Error, LockTable};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::world::{Contender, DATABASE, LOCK, World, lock_of};

/// Set in the process whose environment names the credentials.
const CHILD: &str = "SPINDLE_TEST_CHILD";

const LEASE: Duration = Duration::from_secs(1);

/// A test can't change its own environment, so it runs itself once more.
fn once_more(test: &str, environment: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("credentials::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .env_remove("GOOGLE_APPLICATION_CREDENTIALS")
        .env_remove("SPANNER_EMULATOR_HOST")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn credentials_that_cannot_be_had_are_named_and_the_loop_goes_on() {
    if std::env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(without_credentials());
    }
    let file = std::env::temp_dir().join(format!("spindle-credentials-{}", std::process::id()));
    for contents in [None, Some("no JSON"), Some(r#"{"type": "service_account"}"#)] {
        match contents {
            Some(contents) => fs::write(&file, contents).unwrap(),
            // A missing file needn't be removed.
            None => drop(fs::remove_file(&file)),
        }
        let test = "credentials_that_cannot_be_had_are_named_and_the_loop_goes_on";
        let path = file.to_str().unwrap();
        let child = once_more(test, &[("GOOGLE_APPLICATION_CREDENTIALS", path)]);
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{contents:?}: {said}");
    }
    drop(fs::remove_file(&file));
}

fn names_the_ways(error: &Error) {
    for way in [
        "GOOGLE_APPLICATION_CREDENTIALS",
        "gcloud auth application-default login",
        "SPANNER_EMULATOR_HOST",
    ] {
        assert!(error.to_string().contains(way), "{error}");
    }
}

async fn without_credentials() {
    // Nobody listens there, and without credentials nothing is sent.
    let table = LockTable::new(Database::at("https://127.0.0.1:1", DATABASE), "locktable");
    let lock = |id: &str| table.lock(LOCK).id(id).lease(LEASE).build().unwrap();
    let error = table.check().await.unwrap_err();
    assert!(error.is_denied() && !error.is_retryable(), "{error:?}");
    names_the_ways(&error);

    let (a, cancel) = (lock("a"), CancellationToken::new());
    let running = tokio::spawn(a.run(cancel.clone()).into_future());
    let deadline = Instant::now() + Duration::from_secs(60);
    let trouble = loop {
        if let Some(trouble) = a.health().trouble {
            break trouble;
        }
        assert!(Instant::now() < deadline, "it says nothing of it: {:?}", a.health());
        sleep(Duration::from_millis(10)).await;
    };
    assert!(trouble.error.is_denied(), "{trouble:?}");
    names_the_ways(&trouble.error);

    // Long enough to ask once on a busy machine.
    let error = lock("b").acquire().within(LEASE * 5).await.unwrap_err();
    names_the_ways(&error);
    names_the_ways(&lock("c").try_acquire().await.unwrap_err());
    assert!(!running.is_finished() && a.health().is_alive(), "{:?}", a.health());
    cancel.cancel();
    running.await.unwrap().unwrap();
}

/// For a server on 127.0.0.1; the child trusts no other.
const CERTIFICATE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/behaviour/tls/certificate.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/behaviour/tls/key.pem");

#[test]
fn a_fresh_flow_asks_for_no_token_where_the_last_one_had_a_valid_one() {
    if std::env::var_os(CHILD).is_some() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        return builder.enable_all().build().unwrap().block_on(a_flow_that_dies());
    }
    let (metadata_server, gave_a_token) = one_token();
    let child = once_more(
        "a_fresh_flow_asks_for_no_token_where_the_last_one_had_a_valid_one",
        &[
            ("GCE_METADATA_HOST", &metadata_server.to_string()),
            ("HOME", "/nonexistent"),
            ("SSL_CERT_FILE", CERTIFICATE),
        ],
    );
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(gave_a_token.is_finished(), "the client has asked for no token");
}

/// A metadata server that gives one token, and is gone from then on.
fn one_token() -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let token = r#"{"access_token":"t","expires_in":3600,"token_type":"Bearer"}"#;
        for stream in listener.incoming() {
            let (mut stream, mut request, mut part) = (stream.unwrap(), Vec::new(), [0; 1 << 10]);
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(read @ 1..) => request.extend_from_slice(&part[..read]),
                    _ => break,
                }
            }
            let is_for_token = String::from_utf8_lossy(&request).contains("/token ");
            let (status, body) =
                if is_for_token { ("200 OK", token) } else { ("404 Not Found", "") };
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n");
            stream
                .write_all(format!("{head}Content-Type: application/json\r\n\r\n{body}").as_bytes())
                .unwrap();
            if is_for_token {
                return;
            }
        }
    });
    (address, server)
}

async fn a_flow_that_dies() {
    const LEASE: Duration = Duration::from_secs(10);
    let world = World::start().await;
    let line = world.line();
    line.leads_to(with_tls(world.spanner.address()).await);
    let endpoint = line.endpoint().replace("http:", "https:");
    let table = LockTable::new(Database::at(endpoint, DATABASE), "locktable");
    let a = Contender::run(lock_of(&table, LOCK).lease(LEASE));
    let token = a.holds().await;
    // The server that had the token is not of this process: until here it took its own time.
    tokio::time::pause();
    for _ in 0..3 {
        let before = line.accepted();
        line.swallow();
        sleep(LEASE * 2).await;
        assert_eq!(a.lock.has_lock(), Some(token), "{:?}", a.lock.health());
        assert!(line.accepted() > before, "no fresh flow was begun");
    }
    a.stop().await;
}

/// Opens a port that speaks TLS, and leads to this one that doesn't.
async fn with_tls(server: SocketAddr) -> SocketAddr {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_file(KEY).unwrap();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            // Bytes that wait in the kernel take no time on the virtual clock.
            near.set_nodelay(true).unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // The virtual clock stands while a blocking task runs: a handshake takes none of its time.
                let (over, ends) = std::sync::mpsc::channel::<()>();
                let stands = tokio::task::spawn_blocking(move || ends.recv());
                let near = acceptor.accept(near).await;
                drop(over);
                stands.await.unwrap().unwrap_err();
                let Ok(mut near) = near else { return };
                let mut far = TcpStream::connect(server).await.unwrap();
                far.set_nodelay(true).unwrap();
                // Either end may go first.
                drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
            });
        }
    });
    address
}
