//! Client and server together, with and without TLS.

#[path = "common/fake.rs"]
mod fake;

use arles_api::client::{Client, ClientError, News};
use arles_api::{Health, JobRequest};
use arles_daemon::http::{Door, LocalSocket, Options, Tls};
use fake::Server;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn client(server: &Server, token: &str) -> Client {
    Client::new(&format!("http://{}", server.at), Some(token.into()), None).unwrap()
}

#[test]
fn requests_and_refusals_come_back() {
    let server = Server::start(Server::unlimited());
    let client = client(&server, "operator");
    let job: Value = client.get("/v1/jobs/17").unwrap();
    assert_eq!(job["asked"], "getJob 17");
    let request: JobRequest = serde_json::from_value(json!({"workload": "resnet50", "steps": 5.0})).unwrap();
    let made: Value = client.post("/v1/jobs", &request, Some("key-1")).unwrap();
    assert!(made["asked"].as_str().unwrap().contains("key-1"));
    let put: Value = client.put("/v1/policy", &json!({"policy": "fifo"})).unwrap();
    assert!(put["asked"].as_str().unwrap().contains("fifo"));
    let gone: Value = client.delete("/v1/jobs/3").unwrap();
    assert_eq!(gone["asked"], "cancelJob 3");
    assert!(client.text("/openapi.json").unwrap().contains("3.1.0"));
    let ready: Health = client.get("/readyz").unwrap();
    assert!(!ready.ok, "told although its status is 503");

    let error = client.get::<Value>("/v1/tokens").unwrap_err();
    assert!(error.to_string().ends_with("; use a token of scope admin"), "{error}");
    let ClientError::Refused { status, fault, .. } = error else { panic!("{error:?}") };
    assert_eq!((status, fault.code.as_str()), (403, "scope-too-small"));
    let error = client.get::<Value>("/v1/tenants").unwrap_err();
    assert!(matches!(error, ClientError::Refused { status: 503, retry_after_seconds: Some(3.0), .. }), "{error:?}");
    let error = client.get::<Value>("/v1/ä b").unwrap_err().to_string();
    assert!(error.contains("percent-encode"), "{error}");
}

#[test]
fn nobody_there_is_said_in_words() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::new(&format!("http://{at}"), None, None).unwrap();
    let error = client.get::<Value>("/v1/server").unwrap_err().to_string();
    assert_eq!(error, format!("connection to http://{at} refused; is 'arles serve' running at {at}?"));
}

/// A server that closes a connection after each answer without saying so, as one that was restarted does.
fn forgetful(answers: usize) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for _ in 0..answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue").unwrap();
        }
    });
    at
}

#[test]
fn a_broken_connection_is_made_anew() {
    let at = forgetful(3);
    let client = Client::new(&format!("http://{at}"), None, None).unwrap();
    for _ in 0..3 {
        assert!(client.get::<bool>("/v1/server").unwrap());
        std::thread::sleep(Duration::from_millis(50));
    }
    let error = client.get::<bool>("/v1/server").unwrap_err();
    assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
}

#[test]
fn whoever_does_not_speak_as_we_do_is_named() {
    let at = forgetful(1);
    let client = Client::new(&format!("http://{at}"), None, None).unwrap();
    let error = client.get::<Health>("/v1/server").unwrap_err().to_string();
    assert!(error.contains("unexpected JSON") && error.contains("same version"), "{error}");
}

#[test]
fn events_are_heard() {
    let server = Server::start(Server::unlimited());
    (0..120).for_each(|_| server.fake.happen("round", None));
    let client = client(&server, "read");
    let mut events = client.events(Some(118)).unwrap();
    let numbers = |news: Option<Result<News, ClientError>>| match news {
        Some(Ok(News::Event(event))) => event.id,
        other => panic!("{other:?}"),
    };
    assert_eq!((numbers(events.next()), numbers(events.next())), (119, 120));
    server.fake.happen("policy", None);
    assert_eq!(numbers(events.next()), 121);
    let reset = client.events(Some(1)).unwrap().next();
    assert_eq!(reset, Some(Ok(News::Reset(121))));
    server.begin_stop();
    assert_eq!(events.next(), None);
    let refused = Client::new(&format!("http://{}", server.at), None, None).unwrap();
    assert!(refused.events(None).is_err());
}

/// A folder with a certificate for 127.0.0.1 and its key, or nothing where there is no openssl.
fn certificate(name: &str) -> Option<(PathBuf, Tls)> {
    let folder = std::env::temp_dir().join(format!("arles-tls-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let tls = Tls { cert: folder.join("cert.pem"), key: folder.join("key.pem") };
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=arles", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .arg(&tls.cert)
        .arg("-keyout")
        .arg(&tls.key)
        .output();
    if made.is_ok_and(|made| made.status.success()) {
        return Some((folder, tls));
    }
    arles_testing::skip("there is no openssl to make a certificate with");
    None
}

#[test]
fn tls_there_and_back() {
    let Some((folder, tls)) = certificate("round") else { return };
    let ca = tls.cert.clone();
    let server = Server::start(Options { tls: Some(tls), ..Server::unlimited() });
    let url = format!("https://{}", server.at);
    let trusting = Client::new(&url, Some("admin".into()), Some(&ca)).unwrap();
    for id in 1..4 {
        let job: Value = trusting.get(&format!("/v1/jobs/{id}")).unwrap();
        assert_eq!(job["asked"], format!("getJob {id}"));
    }
    let Some((other_folder, other)) = certificate("other") else { return };
    let doubting = Client::new(&url, Some("admin".into()), Some(&other.cert)).unwrap();
    let error = doubting.get::<Value>("/v1/server").unwrap_err().to_string();
    assert!(error.contains("the TLS handshake with"), "{error}");
    let plain = Client::new(&format!("http://{}", server.at), Some("admin".into()), None).unwrap();
    assert!(plain.get::<Value>("/v1/server").is_err());
    let _ = std::fs::remove_dir_all(folder);
    let _ = std::fs::remove_dir_all(other_folder);
}

/// Serves a fake through a door in a runtime of its own, until the test is over.
fn open_door(
    options: Options,
    local: Option<&Path>,
) -> (tokio::runtime::Runtime, std::net::SocketAddr, Option<Reload>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (at, door) = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let local = local.map(|path| LocalSocket::bind(path).unwrap());
        (at, Door::new(options, listener, local).unwrap())
    });
    let certificate = door.certificate();
    let (keep, stop) = tokio::sync::watch::channel(false);
    runtime.spawn(async move {
        door.serve(fake::Fake::default(), stop).await;
        drop(keep);
    });
    let reload =
        certificate.map(|certificate| -> Reload { Box::new(move || certificate.reload().map_err(|e| e.to_string())) });
    (runtime, at, reload)
}

type Reload = Box<dyn Fn() -> Result<(), String>>;

#[test]
fn the_owner_needs_no_token_at_the_socket() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("arles-socket-door-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("arles.sock");
    // What a killed daemon left behind is replaced; what is no socket is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let other = folder.join("notes.txt");
    std::fs::write(&other, "mine").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = runtime.block_on(async { LocalSocket::bind(&other) }).unwrap_err().to_string();
    assert!(refused.contains("not a socket") && refused.contains("--state"), "{refused}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");

    let (runtime, at, _) = open_door(Server::unlimited(), Some(&path));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let who = |url: &str, token: Option<&str>| {
        let client = Client::new(url, token.map(str::to_owned), None).unwrap();
        client.get::<Value>("/v1/server").map(|answer| answer["who"].clone())
    };
    let url = format!("unix:{}", path.display());
    assert_eq!(who(&url, None).unwrap(), "local");
    assert_eq!(who(&url, Some("read")).unwrap(), "a-read-token", "whoever shows a token is that token's");
    assert!(who(&url, Some("wrong")).is_err());
    assert!(who(&format!("http://{at}"), None).unwrap_err().to_string().contains("a token is required"));
    runtime.shutdown_timeout(Duration::from_secs(5));
    assert!(!path.exists(), "the socket goes with the door");
    let error = who(&url, None).unwrap_err().to_string();
    assert!(error.contains("there is no socket") && error.contains("is 'arles serve' running"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_certificate_is_read_anew_and_a_bad_one_is_not_taken() {
    let Some((folder, tls)) = certificate("reload") else { return };
    let Some((next_folder, next)) = certificate("reload-next") else { return };
    let old = folder.join("old.pem");
    std::fs::copy(&tls.cert, &old).unwrap();
    let (_runtime, at, reload) = open_door(Options { tls: Some(tls.clone()), ..Server::unlimited() }, None);
    let reload = reload.unwrap();
    let trusts = |ca: &Path| {
        let client = Client::new(&format!("https://{at}"), Some("admin".into()), Some(ca)).unwrap();
        client.get::<Value>("/v1/server").is_ok()
    };
    assert!(trusts(&old) && !trusts(&next.cert));
    std::fs::copy(&next.cert, &tls.cert).unwrap();
    let error = reload().unwrap_err();
    assert!(error.contains("does not match the certificate"), "{error}");
    assert!(trusts(&old) && !trusts(&next.cert), "half of a change changes nothing");
    std::fs::copy(&next.key, &tls.key).unwrap();
    reload().unwrap();
    assert!(!trusts(&old) && trusts(&next.cert));
    for folder in [folder, next_folder] {
        let _ = std::fs::remove_dir_all(folder);
    }
}

#[test]
fn keys_that_do_not_fit_are_refused_at_the_start() {
    let Some((folder, tls)) = certificate("fit") else { return };
    let Some((other_folder, other)) = certificate("unfit") else { return };
    let refused = |tls: Tls| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (_keep, stop) = tokio::sync::watch::channel(false);
            let options = Options { tls: Some(tls), ..Options::default() };
            let served = arles_daemon::http::serve(fake::Fake::default(), options, listener, stop);
            tokio::time::timeout(Duration::from_secs(2), served)
                .await
                .expect("it does not serve")
                .unwrap_err()
                .to_string()
        })
    };
    let (cert, key) = (tls.cert.clone(), tls.key.clone());
    let text = refused(Tls { cert: cert.clone(), key: other.key });
    assert!(text.contains("does not match the certificate"), "{text}");
    assert!(refused(Tls { cert: cert.clone(), key: cert.clone() }).contains("contains no private key in PEM"));
    assert!(refused(Tls { cert: key, key: cert.clone() }).contains("contains no certificate in PEM"));
    assert!(refused(Tls { cert: Path::new("nowhere.pem").into(), key: cert }).contains("nowhere.pem cannot be read"));
    let _ = std::fs::remove_dir_all(folder);
    let _ = std::fs::remove_dir_all(other_folder);
}
