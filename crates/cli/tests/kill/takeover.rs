//! Two daemons on one state folder and one cluster. Whoever leads is killed, paused and woken, stopped, or runs out of disk, both are killed at
//! once, and every daemon that starts has another idea of the time. The witnesses are those of the other test; the cluster also says
//! that terms only grew, and which orders came too late.

use super::{
    CLUSTER, Draw, Model, ask_again, finish, number, start_clients, the_cluster_says, the_daemon_says, the_journal_says,
};
use crate::plain::{self, ARLES, Door, Folder, World, call_within};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Seconds of the cluster in one of ours: a takeover is about as long as the lease of its nodes.
const SPEED: &str = "200";
/// Faults after which clients ask again for what they got no answer to.
const ASKED_AGAIN_EVERY: u64 = 50;
const LEASE: &str = "1s";

/// One of the two daemons.
struct Peer {
    child: Option<Child>,
    address: SocketAddr,
    folder: PathBuf,
    world: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Peer {
    fn new(folder: &Path, world: &World) -> Self {
        // The port is free again at once, and nobody else is given it so soon.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        Self { child: None, address, folder: folder.to_owned(), world: world.socket.clone() }
    }

    /// Starts it with a clock that is wrong by so many seconds, and files that may grow to so many blocks of 512 bytes.
    fn start(&mut self, clock_shift: i64, blocks: Option<u64>) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.join("daemon.log"));
        let mut command = match blocks {
            None => Command::new(ARLES),
            Some(blocks) => {
                let mut shell = Command::new("sh");
                // Ignored, the signal becomes an error of the write, as on a disk that is full.
                shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\""), ARLES]);
                shell
            }
        };
        command
            .args(["serve", "--standby", "--lease", LEASE, "--listen", &self.address.to_string(), "--open-loopback"])
            .args(["--estimator", "oracle", "--requests-per-second", "1000000", "--cluster", CLUSTER])
            .args(["--speed", SPEED, "--keep-journal", "--snapshot-entries", "150", "--round", "60s"])
            .args(["--survey", "60s", "--world", &self.world.to_string_lossy(), "--state"])
            .arg(self.folder.join("state"))
            .env("ARLES_TEST_CLOCK_SHIFT", clock_shift.to_string())
            // The log has grown beyond what a daemon with little room may write.
            .stderr(if blocks.is_some() { Stdio::null() } else { Stdio::from(log.expect("a log")) });
        self.child = Some(command.spawn().expect("a daemon"));
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().expect("kill").success());
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether it has ended by itself.
    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|ended| ended.is_some()))
    }

    fn says(&self, status: u16, what: &str) -> bool {
        let patience = Duration::from_millis(500);
        call_within(patience, self.address, "GET", "/readyz", None, None)
            .is_ok_and(|(code, text)| code == status && text.contains(what))
    }

    fn leads(&self) -> bool {
        self.says(200, "true")
    }
}

/// Which of the two leads, once one does and the other says that it does not: one that was just woken may not know yet.
fn leader(peers: &[Peer; 2]) -> usize {
    let mut found = None;
    plain::wait_until("one leads and the other stands by", || {
        found = [0, 1].into_iter().find(|&led| peers[1 - led].says(503, "standby") && peers[led].leads());
        found.is_some()
    });
    found.expect("waited for")
}

/// How far off a clock is: as often as not not at all, else an hour or days.
fn shift(draw: &mut Draw) -> i64 {
    [0, 0, 0, 3_600, -3_600, 259_200, -259_200][draw.below(7) as usize]
}

/// The size of the newest journal's largest file, in blocks of 512 bytes.
fn journal_blocks(state: &Path) -> u64 {
    let folders = std::fs::read_dir(state).into_iter().flatten().flatten().map(|entry| entry.path());
    let sizes = folders.flat_map(|folder| {
        ["journal.db", "journal.db-wal"].map(|name| std::fs::metadata(folder.join(name)).map_or(0, |file| file.len()))
    });
    sizes.max().unwrap_or(0) / 512
}

/// Makes whoever leads suffer, and waits until another leads. How long that took, where it was a plain takeover.
fn one_fault(peers: &mut [Peer; 2], draw: &mut Draw, state: &Path) -> (&'static str, Option<Duration>) {
    let led = leader(peers);
    let other = 1 - led;
    std::thread::sleep(Duration::from_micros(draw.below(250_000)));
    let began = Instant::now();
    let fault = draw.below(10);
    match fault {
        0..4 => {
            peers[led].kill();
            plain::wait_until("the other leads", || peers[other].leads());
            let took = began.elapsed();
            peers[led].start(shift(draw), None);
            ("killed", Some(took))
        }
        4..7 => {
            peers[led].signal("-STOP");
            plain::wait_until("the other leads", || peers[other].leads());
            let took = began.elapsed();
            // Woken at whatever point it was, it finds out that it does not lead any more.
            std::thread::sleep(Duration::from_micros(draw.below(200_000)));
            peers[led].signal("-CONT");
            ("paused", Some(took))
        }
        7 => {
            peers[led].signal("-TERM");
            plain::wait_until("the other leads", || peers[other].leads());
            let took = began.elapsed();
            plain::wait_until("it has ended", || peers[led].has_ended());
            peers[led].start(shift(draw), None);
            ("stopped", Some(took))
        }
        8 => {
            peers[0].kill();
            peers[1].kill();
            peers[0].start(shift(draw), None);
            peers[1].start(shift(draw), None);
            ("both killed", None)
        }
        _ => {
            // The other leads next, with little room on its disk, until there is none left.
            peers[other].kill();
            peers[other].start(0, Some(journal_blocks(state) + 100 + draw.below(400)));
            plain::wait_until("it stands by", || peers[other].says(503, "standby"));
            peers[led].kill();
            peers[led].start(shift(draw), None);
            let until = Instant::now() + Duration::from_secs(6);
            while !peers[other].has_ended() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            peers[other].kill();
            peers[other].start(shift(draw), None);
            ("disk full", None)
        }
    }
}

#[test]
fn whoever_leads_is_killed_paused_or_without_disk_and_another_takes_over() {
    let (faults, seed) = (number("ARLES_TAKEOVERS", 20), number("ARLES_KILL_SEED", 1));
    let folder = Folder::new("takeover");
    let world = World::start(&folder.0, CLUSTER, SPEED.parse().expect("a number"));
    let (model, next_key) = (Arc::new(Mutex::new(Model::default())), Arc::new(AtomicU64::new(0)));
    let mut draw = Draw(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
    let mut peers = [Peer::new(&folder.0, &world), Peer::new(&folder.0, &world)];
    peers.iter_mut().for_each(|peer| peer.start(0, None));
    let to = Arc::new(Door::new(peers.iter().map(|peer| peer.address).collect()));
    let stop = Arc::new(AtomicBool::new(false));
    let clients = start_clients(&to, &stop, &model, &next_key, &mut draw);
    let (mut suffered, mut took): (std::collections::BTreeMap<&str, u64>, Vec<Duration>) = Default::default();
    for n in 1..=faults {
        // A key is good for a day of the scheduler's clock, which is minutes here: whoever got no answer must not wait for the end of hundreds of faults.
        if n % ASKED_AGAIN_EVERY == 0 {
            ask_again(&to, &model);
        }
        let (fault, takeover) = one_fault(&mut peers, &mut draw, &folder.0.join("state"));
        *suffered.entry(fault).or_default() += 1;
        took.extend(takeover);
    }
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    let jobs = finish(&to, &model);
    let model = model.lock().expect("no poison");
    took.sort_unstable();
    println!("{faults} faults: {suffered:?}; {} jobs, {} cancellations", model.jobs().count(), model.cancelled.len());
    if let (Some(half), Some(worst)) = (took.get(took.len() / 2), took.last()) {
        println!("{} takeovers timed with a lease of {LEASE}: median {half:.2?}, worst {worst:.2?}", took.len());
    }
    the_daemon_says(&model, &jobs);
    let led = leader(&peers);
    for peer in [1 - led, led] {
        let peer = &mut peers[peer];
        peer.signal("-TERM");
        plain::wait_until("it has ended", || peer.has_ended());
    }
    the_journal_says(&folder);
    the_cluster_says(&world, &jobs);
}
