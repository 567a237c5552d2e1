//! The daemon's door, with the real binary: what it says before it is open, who gets in and how, and what no client ever sends.

mod plain;

use plain::{Folder, call, patiently, wait_until};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn arles(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arles"));
    for name in ["ARLES_URL", "ARLES_TOKEN", "ARLES_TOKEN_FILE", "ARLES_CA", "ARLES_JOB", "SSL_CERT_FILE"] {
        command.env_remove(name);
    }
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder.join("config")).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the binary was built");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
}

fn says(folder: &Path, line: &str) -> String {
    let (code, stdout, stderr) = run(arles(folder).args(line.split_whitespace()));
    assert_eq!(code, 0, "arles {line}: {stdout}{stderr}");
    stdout
}

/// A daemon whose state is in `arles-state` of a folder, where commands look for it.
struct Daemon {
    child: Child,
    folder: PathBuf,
}

const SMALL: [&str; 7] = ["serve", "--estimator", "oracle", "--cluster", "v100:2", "--tenants", "vision"];

impl Daemon {
    fn start(folder: &Path, flags: &[&str], stderr: impl Into<Stdio>) -> Self {
        let address = folder.join("arles-state/address");
        let _ = std::fs::remove_file(&address);
        let child = arles(folder)
            .args(SMALL)
            .args(["--listen", "127.0.0.1:0"])
            .args(flags)
            .stderr(stderr)
            .spawn()
            .expect("the binary was built");
        let mut daemon = Self { child, folder: folder.to_owned() };
        wait_until("the daemon is there", || {
            assert!(daemon.child.try_wait().expect("ours").is_none(), "it ended: {}", daemon.log());
            address.is_file() && !daemon.url().is_empty()
        });
        daemon
    }

    /// With its log in the folder.
    fn logging(folder: &Path, flags: &[&str]) -> Self {
        Self::start(folder, flags, File::options().create(true).append(true).open(folder.join("log")).expect("a log"))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn url(&self) -> String {
        std::fs::read_to_string(self.folder.join("arles-state/address")).unwrap_or_default()
    }

    fn at(&self) -> SocketAddr {
        let url = self.url();
        url.split_once("://").and_then(|(_, at)| at.parse().ok()).unwrap_or_else(|| panic!("{url}"))
    }

    fn signal(&self, name: &str) {
        let told = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill");
        assert!(told.success());
    }

    fn stop(&mut self) {
        self.signal("-TERM");
        assert!(self.child.wait().expect("gone").success(), "{}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate for 127.0.0.1 and its key in a folder; `false` where there is no openssl.
fn certificate(folder: &Path, name: &str) -> bool {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=arles", "-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-out"])
        .arg(folder.join(format!("{name}.pem")))
        .arg("-keyout")
        .arg(folder.join(format!("{name}.key")))
        .output();
    let made = made.is_ok_and(|made| made.status.success());
    if !made {
        arles_testing::skip("there is no openssl to make a certificate with");
    }
    made
}

#[test]
fn a_door_that_cannot_be_opened_is_never_announced() {
    let folder = Folder::new("door-shut");
    let folder = &folder.0;
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    std::fs::write(folder.join("not.pem"), "once upon a time").expect("written");
    let serve = |flags: &[&str], expected: i32, says: &str| {
        let (code, _, stderr) = run(arles(folder).args(SMALL).args(flags));
        assert_eq!(code, expected, "{flags:?}: {stderr}");
        assert!(stderr.contains(says) && !stderr.contains("ready: "), "{flags:?}: {stderr}");
        assert!(!folder.join("arles-state/address").exists(), "{flags:?}");
    };
    let _held = TcpListener::bind(&taken);
    serve(&["--listen", &taken], 1, "cannot listen on");
    serve(&["--listen", "192.0.2.1:7117"], 1, "cannot listen on 192.0.2.1:7117");
    serve(&["--listen", "0.0.0.0:0", "--open-loopback"], 2, "listen on 127.0.0.1, or use tokens");
    let tls = |cert: &'static str, key: &'static str| ["--tls-certificate", cert, "--tls-key", key];
    let any = ["--listen", "127.0.0.1:0"];
    serve(&[&any[..], &tls("not.pem", "not.pem")].concat(), 2, "not.pem contains no certificate in PEM");
    if certificate(folder, "one") && certificate(folder, "two") {
        serve(&[&any[..], &tls("one.pem", "two.key")].concat(), 2, "does not match the certificate");
        serve(&[&any[..], &tls("one.pem", "nowhere.key")].concat(), 2, "nowhere.key cannot be read");
    }
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let folder = Folder::new("door-asleep");
    let flags = ["--log-requests", "--open-loopback", "--requests-per-second", "1000000"];
    let mut daemon = Daemon::start(&folder.0, &flags, Stdio::piped());
    // Held and never read: the pipe fills up, and then the queue before it.
    let _asleep = daemon.child.stderr.take();
    let at = daemon.at();
    let body = r#"{"workload": "resnet50-b64", "tenant": "vision", "steps": 100}"#;
    for i in 0..2500 {
        let (status, answer) = patiently(|| call(at, "GET", "/v1/server", None, None));
        assert_eq!(status, 200, "request {i}: {answer}");
    }
    let (status, answer) = patiently(|| call(at, "POST", "/v1/jobs", Some("once"), Some(body)));
    assert!(status == 201 || status == 200, "{answer}");
    let (_, metrics) = patiently(|| call(at, "GET", "/metrics", None, None));
    let lost = metrics.lines().find_map(|line| line.strip_prefix("arles_log_lines_lost_total ")).expect("a metric");
    assert!(lost.parse::<u64>().expect("a number") > 0, "{lost}");
    daemon.stop();
}

#[test]
fn silent_connections_leave_room_for_whoever_asks() {
    let folder = Folder::new("door-silent");
    std::fs::write(folder.0.join("small.toml"), "[serve]\nconnections = 64\n").expect("written");
    let mut daemon = Daemon::logging(&folder.0, &["--open-loopback", "--config", "small.toml"]);
    let at = daemon.at();
    let held: Vec<TcpStream> = (0..200).map(|_| patiently(|| TcpStream::connect(at))).collect();
    for path in ["/healthz", "/v1/server"] {
        let (status, answer) = patiently(|| call(at, "GET", path, None, None));
        assert_eq!(status, 200, "{path}: {answer}");
    }
    let body = r#"{"workload": "resnet50-b64", "tenant": "vision", "steps": 100}"#;
    let (status, answer) = patiently(|| call(at, "POST", "/v1/jobs", Some("once"), Some(body)));
    assert_eq!(status, 201, "{answer}");
    drop(held);
    daemon.stop();
}

#[test]
fn commands_in_its_folder_use_its_socket() {
    let folder = Folder::new("door-socket");
    let folder = &folder.0;
    let mut daemon = Daemon::logging(folder, &["--log-requests"]);
    says(folder, "submit resnet50-b64 --tenant vision --steps 1e9");
    assert!(says(folder, "token list").contains("admin"));
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(folder.join(name)).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!((mode("arles-state"), mode("arles-state/arles.sock")), (0o700, 0o600));
    let socket = format!("unix:{}", folder.join("arles-state/arles.sock").display());
    let (code, _, stderr) = run(arles(&folder.join("..")).args(["queue"]).env("ARLES_URL", &socket));
    assert_eq!(code, 0, "{stderr}");
    wait_until("requests are logged", || daemon.log().contains("token=\"local\""));
    // Over TCP the same user needs a token, and none is sent unasked.
    let (code, _, stderr) = run(arles(folder).args(["queue"]).env("ARLES_URL", daemon.url()));
    assert!(code == 2 && stderr.contains("a token is required"), "{stderr}");
    // A killed daemon leaves its socket, which the next one replaces.
    daemon.child.kill().expect("killed");
    daemon.child.wait().expect("gone");
    let (code, _, stderr) = run(arles(folder).args(["queue"]));
    assert!(code == 1 && stderr.contains("nobody listens on arles-state/arles.sock"), "{stderr}");
    let mut daemon = Daemon::logging(folder, &[]);
    assert!(says(folder, "queue -o csv").contains("vision"));
    daemon.stop();
    assert!(!folder.join("arles-state/arles.sock").exists());
}

/// What a client sends to whoever has bound a port.
fn sent_to_an_impostor(folder: &Path, listener: &TcpListener) -> String {
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let mut client =
        arles(folder).args(["tenants"]).env("ARLES_URL", url).stderr(Stdio::null()).spawn().expect("built");
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        let n = stream.read(&mut piece).expect("a request");
        assert!(n > 0);
        head.extend_from_slice(&piece[..n]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}").expect("answered");
    drop(stream);
    client.wait().expect("it ends");
    String::from_utf8_lossy(&head).to_ascii_lowercase()
}

#[test]
fn whoever_binds_a_port_gets_no_token_that_was_not_written_for_it() {
    let folder = Folder::new("door-impostor");
    let folder = &folder.0;
    let (one, two) =
        (TcpListener::bind("127.0.0.1:0").expect("a port"), TcpListener::bind("127.0.0.1:0").expect("a port"));
    std::fs::create_dir_all(folder.join("arles-state")).expect("a folder");
    std::fs::write(folder.join("arles-state/admin.token"), "arles_first\n").expect("written");
    let port = one.local_addr().expect("an address").port();
    let tokens = folder.join("config/arles/tokens");
    std::fs::create_dir_all(&tokens).expect("a folder");
    std::fs::write(tokens.join(format!("http_127.0.0.1_{port}")), "arles_written-for-it\n").expect("written");
    std::fs::write(tokens.join(format!("https_127.0.0.1_{port}")), "arles_for-tls\n").expect("written");
    let sent = sent_to_an_impostor(folder, &one);
    assert!(sent.contains("authorization: bearer arles_written-for-it"), "{sent}");
    let sent = sent_to_an_impostor(folder, &two);
    assert!(sent.starts_with("get /v1/") && !sent.contains("authorization"), "{sent}");
}

#[test]
fn a_secret_is_not_made_where_it_cannot_be_kept() {
    let folder = Folder::new("door-secrets");
    let folder = &folder.0;
    let mut daemon = Daemon::logging(folder, &[]);
    std::fs::write(folder.join("mine.txt"), "mine").expect("written");
    for (to, what) in [("mine.txt", "'mine.txt' already exists"), ("nowhere/x.token", "cannot write 'nowhere/x.token'")]
    {
        let (code, stdout, stderr) = run(arles(folder).args(["token", "create", "x", "--scope", "read", "--to", to]));
        assert!(code == 1 && stderr.contains(what) && stdout.is_empty(), "{code}: {stdout}{stderr}");
    }
    assert_eq!(std::fs::read_to_string(folder.join("mine.txt")).expect("it is there"), "mine");
    // A disk that is full when the secret is written: the token is taken back.
    let binary = env!("CARGO_BIN_EXE_arles");
    let full = format!("trap '' XFSZ; ulimit -f 0; exec {binary} token create lost --scope read --to lost.token");
    let (code, stdout, stderr) = run(Command::new("sh").args(["-c", &full]).current_dir(folder));
    assert!(code == 1 && stderr.contains("token lost was not created") && stdout.is_empty(), "{code}: {stderr}");
    assert!(!folder.join("lost.token").exists());
    let listed = says(folder, "token list -o csv");
    assert!(!listed.contains("lost") && !listed.lines().any(|line| line.starts_with("x,")), "{listed}");

    says(folder, "token create ci --scope read --expires 90d --to ci.token");
    let listed = says(folder, "token list");
    // Less the moment since it was made, if that is a second or more.
    let ends = listed.contains("in 90d") || listed.contains("in 89d23h");
    assert!(ends && listed.contains("never"), "{listed}");
    says(folder, "tenants --token-file ci.token");
    assert!(says(folder, "token list").contains("ago"));
    says(folder, "token rotate ci --overlap 1h --to new.token");
    says(folder, "tenants --token-file ci.token");
    says(folder, "tenants --token-file new.token");
    let newest = says(folder, "token rotate ci --overlap 0s");
    assert!(newest.starts_with("arles_"), "{newest}");
    let (code, _, stderr) = run(arles(folder).args(["tenants", "--token-file", "new.token"]));
    assert!(code == 2 && stderr.contains("this secret of token 'ci' was replaced"), "{stderr}");
    daemon.stop();
}

#[test]
fn a_certificate_is_replaced_by_a_signal_and_trusted_by_the_system() {
    let folder = Folder::new("door-tls");
    let folder = &folder.0;
    if !certificate(folder, "one") || !certificate(folder, "two") {
        return;
    }
    let copy = |from: &str, to: &str| {
        std::fs::copy(folder.join(from), folder.join(to)).expect("copied");
    };
    copy("one.pem", "cert.pem");
    copy("one.key", "cert.key");
    let mut daemon = Daemon::logging(folder, &["--tls-certificate", "cert.pem", "--tls-key", "cert.key"]);
    assert!(daemon.url().starts_with("https://"));
    let trusts = |file: &str| {
        let mut command = arles(folder);
        command.env("ARLES_URL", daemon.url()).env("ARLES_TOKEN_FILE", "arles-state/admin.token");
        run(command.arg("tenants").env("SSL_CERT_FILE", file)).0 == 0
    };
    assert!(trusts("one.pem") && !trusts("two.pem"));
    copy("two.pem", "cert.pem");
    daemon.signal("-HUP");
    wait_until("the daemon says that the files do not fit", || daemon.log().contains("stays in use"));
    assert!(trusts("one.pem") && !trusts("two.pem"));
    copy("two.key", "cert.key");
    daemon.signal("-HUP");
    wait_until("the daemon has read them", || daemon.log().contains("new connections use the certificate"));
    assert!(trusts("two.pem") && !trusts("one.pem"));
    daemon.stop();
}
