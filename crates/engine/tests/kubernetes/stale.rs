//! A watch that goes stale while the server answers everything else.

use super::support::{RealKubernetes, kubernetes_or_skip};
use super::{arrivals, cluster, job, nodes, now, pod_spec, taken, told};
use arles_core::engine::{Engine, Mandate};
use arles_core::scheduler::GangEvent;
use arles_engine::contract::start;
use arles_engine::{Kubernetes, Nominal};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Stands between an engine and the API server. When it is told to, it keeps what the server says on watches of pods that are open then.
struct Between {
    port: u16,
    /// Watches of pods that were opened so far.
    opened: Arc<AtomicUsize>,
    is_muted: Arc<AtomicBool>,
    proxy: Child,
}

impl Between {
    /// `kubectl proxy` speaks plain HTTP, so that requests can be read.
    fn start(kubernetes: &RealKubernetes) -> Self {
        let mut proxy = Command::new(kubernetes.program("kubectl"))
            .args(["proxy", "--port=0"])
            .env("KUBECONFIG", kubernetes.kubeconfig())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut line = String::new();
        BufReader::new(proxy.stdout.take().expect("piped")).read_line(&mut line).expect("it says where it listens");
        let behind: u16 = line.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has one").port();
        let (opened, is_muted) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (counted, muted) = (Arc::clone(&opened), Arc::clone(&is_muted));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", behind)).expect("kubectl proxy is there");
                connect(&client, &server, &counted, &muted);
            }
        });
        Self { port, opened, is_muted, proxy }
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// Passes on what two sides say. Of the server's answers nothing more is passed on after the mute, on a connection with a watch that was opened before.
fn connect(client: &TcpStream, server: &TcpStream, opened: &Arc<AtomicUsize>, is_muted: &Arc<AtomicBool>) {
    let is_old_watch = Arc::<AtomicBool>::default();
    let copies = || (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    let ((mut from, mut to), (opened, muted, old)) =
        (copies(), (Arc::clone(opened), Arc::clone(is_muted), Arc::clone(&is_old_watch)));
    std::thread::spawn(move || {
        let mut piece = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            let text = String::from_utf8_lossy(&piece[..count]);
            if text.contains("GET /api/v1/pods?watch=1") {
                opened.fetch_add(1, Ordering::SeqCst);
                old.store(!muted.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            if to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let ((mut to, mut from), muted) = (copies(), Arc::clone(is_muted));
    std::thread::spawn(move || {
        let mut piece = [0; 65536];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            let keeps = is_old_watch.load(Ordering::SeqCst) && muted.load(Ordering::SeqCst);
            if !keeps && to.write_all(&piece[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

/// The server takes a binding, and the watch never shows it: everything is listed anew, long before the watch would be over.
#[test]
fn a_stale_watch_is_found_out_by_what_it_does_not_show() {
    if !kubernetes_or_skip("a watch that goes stale") {
        return;
    }
    let kubernetes = RealKubernetes::start(&nodes(""));
    kubernetes.namespace("team");
    let between = Between::start(&kubernetes);
    let file = kubernetes.folder.join("between.kubeconfig");
    let there = json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{}", between.port)}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    std::fs::write(&file, there.to_string()).expect("it is ours");
    let mut options = kubernetes.options("programs");
    options.kubeconfig = Some(file);
    let mut engine = Kubernetes::new(cluster(""), options, Box::new(Nominal)).expect("it answers");
    engine.lead(&Mandate { journal: "stale".into(), ..Mandate::default() }).expect("it obeys");
    engine.sync_jobs(now(), &[]).expect("it answers");
    kubernetes.create(&job("train", 1, &pod_spec(1, "sleep 300", "arles"), &json!({})));
    let live = taken(&arrivals(&mut engine, 1)[0], 1);
    engine.add_job(now(), &live).expect("it answers");

    between.is_muted.store(true, Ordering::SeqCst);
    let before = between.opened.load(Ordering::SeqCst);
    engine.apply(now(), &start(1, 1, &[4], 60.0)).expect("it answers");
    assert_eq!(told(&mut engine, 1), GangEvent::Started);
    assert!(between.opened.load(Ordering::SeqCst) > before, "another watch was opened");
}
