//! Who may drive a cluster, and daemons that stand by, as processes.

mod plain;

use arles_core::Time;
use arles_core::engine::{Engine, Mandate};
use arles_engine::Remote;
use plain::{ARLES, Daemon, Folder, World, call, wait_until};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const CLUSTER: &str = "v100:2";

fn world(listen: &Path) -> Command {
    let mut command = Command::new(ARLES);
    command.args(["world", "--cluster", CLUSTER, "--listen"]).arg(listen);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_world_replaces_nothing_but_a_socket_that_nobody_listens_on() {
    let folder = Folder::new("world-path");
    let (file, socket) = (folder.0.join("thesis"), folder.0.join("world"));
    std::fs::write(&file, "years of work").expect("a file");
    let refused = world(&file).output().expect("it ends");
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("exists and is not a socket"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(&file).expect("still there"), "years of work");
    let first = World::start(&folder.0, CLUSTER, 1);
    let mode = std::fs::metadata(&socket).expect("a socket").permissions().mode();
    wait_until("only its user may connect", || {
        std::fs::metadata(&socket).is_ok_and(|socket| socket.permissions().mode() & 0o777 == 0o600)
    });
    let refused = world(&socket).output().expect("it ends");
    assert!(stderr(&refused).contains("a virtual cluster listens on") && mode & 0o170_000 == 0o140_000);
    drop(first);
    // What a world that was killed has left is in nobody's way.
    assert!(socket.exists());
    drop(World::start(&folder.0, CLUSTER, 1));
}

#[test]
fn a_world_that_is_out_of_descriptors_goes_on() {
    let folder = Folder::new("world-files");
    let socket = folder.0.join("world");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 16; exec \"$0\" \"$@\"", ARLES, "world", "--cluster", CLUSTER, "--listen"]);
    let mut child = limited.arg(&socket).stderr(Stdio::null()).spawn().expect("a world");
    wait_until("it listens", || UnixStream::connect(&socket).is_ok());
    let crowd: Vec<UnixStream> = (0..40).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    assert_eq!(crowd.len(), 40);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(child.try_wait().expect("ours").is_none(), "it ended");
    drop(crowd);
    let mut remote = Remote::connect(&socket);
    wait_until("it answers again", || remote.poll(Time::ZERO).is_ok());
    child.kill().and_then(|()| child.wait()).expect("killed");
}

#[test]
fn a_world_obeys_nobody_of_another_user() {
    let folder = Folder::new("world-user");
    let world = World::start(&folder.0, CLUSTER, 1);
    // Whatever the permissions of socket and folder: they are not what keeps others out.
    for (path, mode) in [(&world.socket, 0o666), (&folder.0, 0o777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    }
    // Perl is in every Debian, and unlike a Python of root's own it is there for everybody.
    let script = "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un($ARGV[0])) or die $!; print scalar <S>";
    let asked = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "perl", "-e", script])
        .arg(&world.socket)
        .output();
    match asked {
        Ok(asked) if asked.status.success() => {
            let said = String::from_utf8_lossy(&asked.stdout).into_owned();
            assert!(said.contains("belongs to another user"), "{said}");
        }
        _ => arles_testing::skip("only root can become another user, with setpriv and perl"),
    }
}

#[test]
fn two_daemons_on_one_world_are_refused() {
    let folder = Folder::new("world-two");
    let world = World::start(&folder.0, CLUSTER, 1);
    let mut first = Daemon::start(&folder.0, CLUSTER, 1, Some(&world.socket));
    let at = first.address();
    let elsewhere = folder.0.join("elsewhere");
    std::fs::create_dir_all(&elsewhere).expect("a folder");
    let log = || std::fs::read_to_string(elsewhere.join("daemon.log")).unwrap_or_default();
    let second = Daemon::start(&elsewhere, CLUSTER, 1, Some(&world.socket));
    wait_until("the second is refused", || log().contains("belongs to the journal"));
    assert!(call(at, "GET", "/readyz", None, None).is_ok_and(|(status, _)| status == 200), "the first goes on");
    drop(second);
    // The same journal in another folder: the lock of the folder does not keep it out, the world does.
    first.stop();
    let copied = elsewhere.join("state");
    std::fs::remove_dir_all(&copied).expect("the second's");
    std::fs::create_dir_all(&copied).expect("a folder");
    for entry in std::fs::read_dir(folder.0.join("state")).expect("the first's").flatten() {
        std::fs::copy(entry.path(), copied.join(entry.file_name())).expect("a copy");
    }
    let mut first = Daemon::start(&folder.0, CLUSTER, 1, Some(&world.socket));
    first.address();
    let _second = Daemon::start(&elsewhere, CLUSTER, 1, Some(&world.socket));
    wait_until("the copy is refused", || log().contains("another daemon drives this virtual cluster"));
}

/// A daemon that shares its folder.
struct Peer(Child, SocketAddr);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    fn start(folder: &Path) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("daemon.log")).expect("a log");
        let child = Command::new(ARLES)
            .args(["serve", "--standby", "--lease", "1s", "--open-loopback", "--estimator", "oracle"])
            .args(["--cluster", CLUSTER, "--listen", &address.to_string(), "--state"])
            .arg(folder.join("state"))
            .stderr(log)
            .spawn()
            .expect("a daemon");
        Self(child, address)
    }

    fn says(&self, path: &str) -> (u16, String) {
        call(self.1, "GET", path, None, None).unwrap_or_default()
    }
}

fn arles(urls: &str, arguments: &[&str]) -> Output {
    Command::new(ARLES).args(arguments).env("ARLES_URL", urls).env_remove("ARLES_TOKEN").output().expect("it ends")
}

#[test]
fn a_standby_says_who_leads_and_clients_find_the_leader() {
    let folder = Folder::new("standby");
    // A folder that one daemon had to itself is taken over with what is in it.
    let mut plain = Daemon::start_with(&folder.0, CLUSTER, 1, &[]);
    let (status, job) = call(
        plain.address(),
        "POST",
        "/v1/jobs",
        None,
        Some(r#"{"workload":"resnet50-b64","tenant":"vision","steps":1000000000}"#),
    )
    .expect("an answer");
    assert_eq!(status, 201, "{job}");
    plain.stop();
    let leader = Peer::start(&folder.0);
    wait_until("it leads", || leader.says("/readyz").0 == 200);
    let standby = Peer::start(&folder.0);
    let sentence = format!("standby; the leader is http://{}", leader.1);
    wait_until("it stands by", || standby.says("/readyz").1.contains(&sentence));
    assert_eq!(standby.says("/healthz").0, 200);
    for path in ["/v1/jobs", "/metrics", "/", "/v1/nothing"] {
        let (status, text) = standby.says(path);
        assert!(status == 503 && text.contains(&sentence), "{path}: {status} {text}");
    }
    let urls = format!("http://{},http://{}", standby.1, leader.1);
    let shown = arles(&urls, &["show", "1"]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    drop(leader);
    let made = arles(&urls, &["submit", "resnet50-b64", "--tenant", "vision", "--steps", "1000000000"]);
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(String::from_utf8_lossy(&made.stdout).contains("job 2"), "the numbers go on");
    let log = std::fs::read_to_string(folder.0.join("daemon.log")).expect("a log");
    assert!(log.contains("nobody leads; this daemon does from now on, in term 2"), "{log}");
    // A daemon that wants the folder for itself is told that it is shared, and readers find the newest journal.
    let state = folder.0.join("state");
    let refused = Command::new(ARLES).args(["serve", "--state"]).arg(&state).output().expect("it ends");
    assert!(stderr(&refused).contains("is shared by daemons that run with --standby"), "{}", stderr(&refused));
    let read = Command::new(ARLES).args(["show", "2", "--journal"]).arg(&state).output().expect("it ends");
    assert!(read.status.success(), "{}", stderr(&read));
}

#[test]
fn a_mandate_is_part_of_every_connection() {
    let folder = Folder::new("mandate");
    let world = World::start(&folder.0, CLUSTER, 1);
    let mandate = |term| Mandate { journal: "j".into(), kinds: vec!["v100".into()], term };
    let (mut first, mut second) = (Remote::connect(&world.socket), Remote::connect(&world.socket));
    first.lead(&mandate(1)).and_then(|()| first.poll(Time::ZERO)).expect("it leads");
    second.lead(&mandate(2)).and_then(|()| second.poll(Time::ZERO)).expect("it leads now");
    assert!(first.poll(Time::ZERO).is_err() && first.deposed());
}
