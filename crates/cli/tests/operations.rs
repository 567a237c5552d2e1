//! What an operator needs around the daemon: a service manager that is told how it is, files that are whole or not there, completions,
//! a manual, and a unit that systemd accepts.

#[path = "support/arles.rs"]
mod support;

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{arles, folder};

/// Ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Sends a signal by its name and waits for the end.
    fn end(&mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args(["-s", signal, &self.0.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the process is there");
        self.0.wait().expect("it ends").code()
    }
}

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// A daemon whose service manager listens there.
fn watched(folder: &Path, socket: &str, patience: &str, process: Option<&str>) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arles"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--cluster", "v100:2", "--estimator", "oracle"])
        .current_dir(folder)
        .env("NOTIFY_SOCKET", socket)
        .env("WATCHDOG_USEC", patience)
        .env_remove("WATCHDOG_PID")
        .stderr(std::fs::File::create(folder.join("log")).expect("a log"));
    if let Some(process) = process {
        command.env("WATCHDOG_PID", process);
    }
    Running(command.spawn().expect("the binary was built"))
}

/// The next message that fits, within a generous time.
fn heard(manager: &UnixDatagram, fits: &str) -> String {
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut bytes = [0; 4096];
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(120) {
        let n = manager.recv(&mut bytes).unwrap_or_else(|error| panic!("nothing was heard of {fits}: {error}"));
        let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
        if text.contains(fits) {
            return text;
        }
    }
    panic!("nothing was heard of {fits}");
}

#[test]
fn the_service_manager_hears_ready_alive_and_stopping() {
    let folder = folder("operations-notify");
    let socket = folder.join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    let mut daemon = watched(&folder, &socket.to_string_lossy(), "3000000", None);
    let ready = heard(&manager, "READY=1");
    let address = std::fs::read_to_string(folder.join("arles-state/address")).expect("it listens");
    assert!(ready.contains(&format!("STATUS=dashboard and API at {address}")), "{ready}");
    assert!(ready.contains(&format!("MAINPID={}\n", daemon.0.id())), "{ready}");
    for _ in 0..2 {
        assert_eq!(heard(&manager, "WATCHDOG"), "WATCHDOG=1\n");
    }
    assert_eq!(daemon.end("TERM"), Some(0));
    assert!(heard(&manager, "STOPPING=1").contains("STATUS=SIGTERM received"));
}

#[test]
fn an_abstract_socket_serves_and_anothers_watchdog_is_not_fed() {
    let folder = folder("operations-abstract");
    let name = format!("arles-operations-{}", std::process::id());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("a socket");
    let mut daemon = watched(&folder, &format!("@{name}"), "1000", Some("1"));
    heard(&manager, "READY=1");
    assert_eq!(daemon.end("INT"), Some(0));
    let mut bytes = [0; 4096];
    // After READY the next word is the last.
    let n = manager.recv(&mut bytes).expect("a message");
    assert!(bytes[..n].starts_with(b"STOPPING=1"), "{}", String::from_utf8_lossy(&bytes[..n]));
}

/// Files in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_interrupted_command_leaves_no_half_files() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let folder = folder(&format!("operations-part-{signal}"));
        // Whoever runs the tests in the background has these signals ignored, and so would the command.
        let child = Command::new("env")
            .args([
                "--default-signal=INT,TERM",
                env!("CARGO_BIN_EXE_arles"),
                "generate",
                "jobs=50000000",
                "-o",
                "trace.csv",
            ])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = Running(child.expect("the binary was built"));
        let began = Instant::now();
        while !names(&folder).iter().any(|name| name.ends_with(".part")) {
            assert!(child.0.try_wait().expect("it is ours").is_none(), "it ended before it was interrupted");
            assert!(began.elapsed() < Duration::from_secs(60), "no draft was begun: {:?}", names(&folder));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(child.end(signal), Some(code), "as a shell tells the end by a signal");
        assert_eq!(names(&folder), [""; 0], "after SIG{signal}");
    }
}

#[test]
fn a_cut_cache_is_trained_anew() {
    let folder = folder("operations-cache");
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arles"));
        let line = "simulate --cluster v100:2,k80:2 --generate jobs=3 --policy fifo --estimator learned";
        let ran = command.args(line.split(' ')).current_dir(&folder).env("XDG_CACHE_HOME", &folder).output();
        let ran = ran.expect("the binary was built");
        assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    };
    run();
    let kept = names(&folder.join("arles"));
    assert_eq!(kept.len(), 1, "one set of numbers is kept: {kept:?}");
    let path = folder.join("arles").join(&kept[0]);
    let whole = std::fs::read_to_string(&path).expect("the numbers");
    let mut numbers: serde_json::Value = serde_json::from_str(&whole).expect("JSON");
    numbers["flat"].as_array_mut().expect("a list of numbers").truncate(10);
    std::fs::write(&path, numbers.to_string()).expect("a file");
    run();
    assert_eq!(std::fs::read_to_string(&path).expect("the numbers"), whole, "they were learned again");
}

#[test]
fn shells_complete_commands_and_flags() {
    let folder = folder("operations-completions");
    for (shell, sign) in [("bash", "complete -F _arles"), ("zsh", "#compdef arles"), ("fish", "complete -c arles")] {
        let ran = arles(&folder, &["completions", shell], "");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        for part in [sign, "check-config", "open-loopback", "drain"] {
            assert!(ran.stdout.contains(part), "{shell}: no {part}");
        }
        if shell == "bash" {
            // What a person sees who types 'arles ex' and presses tab.
            let ask = format!(
                "{}\nCOMP_WORDS=(arles ex); COMP_CWORD=1; _arles arles ex arles; echo \"${{COMPREPLY[@]}}\"\n",
                ran.stdout
            );
            let mut bash = Command::new("bash");
            bash.args(["--norc", "--noprofile"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut bash = bash.spawn().expect("there is a bash");
            bash.stdin.take().expect("it is piped").write_all(ask.as_bytes()).expect("it reads");
            let said = bash.wait_with_output().expect("it ends");
            assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "explain");
        }
    }
    let wrong = arles(&folder, &["completions", "tcsh"], "");
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("possible values: bash, zsh, fish"), "{}", wrong.stderr);
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = folder("operations-man");
    let ran = arles(&folder, &["man", "man1"], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let pages = names(&folder.join("man1"));
    assert!(pages.len() > 40 && pages.iter().all(|page| page.ends_with(".1")), "{pages:?}");
    assert!(ran.stdout.contains(&format!("{} pages", pages.len())), "{}", ran.stdout);
    let page = |name: &str| std::fs::read_to_string(folder.join("man1").join(name)).expect("a page");
    let serve = page("arles-serve.1");
    assert!(serve.starts_with(".ie \\n(.g") && serve.contains(".TH ARLES-SERVE 1"), "{serve}");
    assert!(serve.contains("\\-\\-open\\-loopback") && serve.contains("Exit codes"), "{serve}");
    assert!(page("arles-nodes-drain.1").contains("deadline"));
    let again = folder.join("again");
    assert_eq!(arles(&folder, &["man", "again"], "").code, 0);
    assert_eq!(page("arles.1"), std::fs::read_to_string(again.join("arles.1")).expect("a page"), "no date is in it");
}

#[test]
fn the_settings_that_are_installed_are_sound() {
    let folder = folder("operations-settings");
    let ran = arles(&folder, &["check-config", &packaging("arles.toml").to_string_lossy()], "");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn systemd_accepts_the_unit_and_finds_it_well_caged() {
    let install = "install it, e.g. 'apt-get install systemd'";
    let Some(program) = arles_testing::program("ARLES_SYSTEMD_ANALYZE", &["systemd-analyze"], install) else { return };
    let folder = folder("operations-unit");
    let unit = std::fs::read_to_string(packaging("arles.service")).expect("the unit is there");
    // The binary of this test instead of the installed one, which need not be there.
    let unit = unit.replace("/usr/bin/arles", env!("CARGO_BIN_EXE_arles"));
    let path = folder.join("arles.service");
    std::fs::write(&path, &unit).expect("a file");
    let said = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).arg(&path).env("SYSTEMD_COLORS", "0").output();
        let output = output.expect("systemd-analyze starts");
        let words = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.success(), words)
    };
    let (well, words) = said(&["verify", "--man=no"]);
    let ours: Vec<&str> = words.lines().filter(|line| line.contains("arles")).collect();
    assert!(well && ours.is_empty(), "{words}");
    // From 0.0, nothing to gain, to 10.0; the threshold is in tenths.
    let (well, words) = said(&["security", "--offline=true", "--no-pager", "--threshold=20"]);
    println!("{}", words.lines().last().unwrap_or_default());
    assert!(well, "{words}");
    for line in ["UMask=0077", "ProtectSystem=strict", "NoNewPrivileges=yes", "SystemCallFilter=@system-service"] {
        assert!(unit.contains(line), "{line}");
    }
}
