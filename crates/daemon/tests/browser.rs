//! The dashboard in a real browser on a whole daemon: what somebody does with it in a day, with the mouse and without.

mod common;

use arles_core::Library;
use arles_daemon::access::{Caller, Scope};
use common::chromium::Page;
use common::live::Live;
use common::{cluster, header, request, wait_until};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const TENANTS: [&str; 5] = ["vision", "speech", "language", "recsys", "robotics"];

fn open(live: &Live, secret: &str, width: u32, height: u32) -> Option<Page> {
    let mut page = Page::open(&live.path("."), width, height)?;
    page.go(&format!("http://{}/", live.at));
    enter(&mut page, secret);
    Some(page)
}

fn enter(page: &mut Page, secret: &str) {
    page.fill("token-input", secret);
    page.click("token-submit");
    page.wait("inside", "document.querySelector('[data-testid=policy-now]')?.textContent");
}

fn clean(page: &mut Page, live: &Live, allowed: &[&str]) {
    let complaints = page.complaints(&format!("http://{}/", live.at), allowed);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Waits until the granted share of a tenant, in the view of fairness, is so.
fn granted(page: &mut Page, tenant: &str, so: &str) {
    let bar = format!("[data-testid=share-row][data-tenant={tenant}] [data-testid=share-bar]");
    page.wait(
        &format!("the share of {tenant} is {so}"),
        &format!("Number(document.querySelector('{bar}')?.dataset.granted ?? NaN) {so}"),
    );
}

#[test]
fn a_day_with_the_dashboard() {
    let header = header(cluster(&[("v100", 2), ("k80", 2)]), &["vision", "speech"], "fifo");
    let live = Live::start(&header, 120.0);
    let Some(mut page) = open(&live, &live.admin, 1280, 800) else { return };

    // Submits through the form, after asking when it would run, and watches it start by itself.
    page.click("nav-jobs");
    page.click("new-job");
    page.fill("field-workload", "resnet50-b64");
    page.fill("field-tenant", "vision");
    page.fill("field-name", "by hand");
    page.fill("field-steps", "1e9");
    page.click("dry-run-button");
    page.wait(
        "a forecast",
        "document.querySelector('[data-testid=dry-run-result]').textContent.includes('would start')",
    );
    assert_eq!(live.get("/v1/jobs")["jobs"], json!([]), "a rehearsal submits nothing");
    page.click("submit-button");
    page.wait("it runs", "document.querySelector('[data-testid=job-state]')?.textContent === 'running'");
    let first = live.get("/v1/jobs")["jobs"][0]["id"].as_u64().expect("a job");

    // Fills the cluster; one more waits, and says why.
    for _ in 0..7 {
        live.submit(&json!({"tenant": "vision", "workload": "resnet50-b64", "gang": 1, "steps": 1e9}));
    }
    let waits = live.submit(&json!({"tenant": "speech", "workload": "resnet50-b64", "gang": 2, "steps": 1e9}));
    page.click("nav-queue");
    page.wait("it is in the queue", &format!("document.querySelector('[data-testid=queue-row][data-job=\"{waits}\"]')?.click() ?? document.querySelector('[data-testid=queue-row][data-job=\"{waits}\"]') !== null"));
    page.wait(
        "why it waits",
        "/ahead in the queue|next in|next scheduling round|time-sharing/.test(document.querySelector('[data-testid=explain-text]')?.textContent)",
    );
    page.click("drawer-close");

    // Another policy, looked at first; then the shares move.
    page.click("nav-fairness");
    granted(&mut page, "vision", "> 0.9");
    page.click("nav-decisions");
    page.wait("policies", "document.querySelector('[data-testid=policy-select]')");
    page.eval("(() => { const s = document.querySelector('[data-testid=policy-select]'); s.value = 'oef-coop'; s.dispatchEvent(new Event('change')); })()");
    page.click("policy-preview");
    page.wait(
        "the forecast",
        "document.querySelector('[data-testid=policy-forecast]')?.textContent.includes('would start')",
    );
    assert_eq!(live.get("/v1/server")["policy"], "fifo", "a look changes nothing");
    page.click("switch-button");
    page.click("confirm-yes");
    page.wait(
        "the other is in force",
        "document.querySelector('[data-testid=policy-now]')?.textContent === 'oef-coop'",
    );
    page.click("nav-fairness");
    granted(&mut page, "vision", "< 0.8");

    // Cancels the first job.
    page.eval(&format!("location.hash = '#/jobs?job={first}'"));
    page.click("cancel-button");
    page.click("confirm-yes");
    page.wait("it is over", "document.querySelector('[data-testid=job-state]')?.textContent === 'cancelled'");
    assert_eq!(live.get(&format!("/v1/jobs/{first}"))["state"], "cancelled");
    clean(&mut page, &live, &["401"]);
}

#[test]
fn tokens_tenants_and_keys() {
    let header = header(cluster(&[("v100", 4)]), &["vision", "speech"], "max-min-fairness");
    let live = Live::start(&header, 120.0);
    for i in 0..10 {
        live.submit(
            &json!({"tenant": (["vision", "speech"][i % 2]), "workload": "resnet50-b64", "gang": 1, "steps": 1e9}),
        );
    }
    let tenant = live.token("vision-person", Scope::Tenant, Some("vision"));
    let Some(mut page) = Page::open(&live.path("."), 1280, 800) else { return };
    page.go(&format!("http://{}/", live.at));
    page.fill("token-input", "arles_wrong");
    page.click("token-submit");
    page.wait(
        "it is refused",
        "document.querySelector('[data-testid=token-form]')?.textContent.includes('Invalid or revoked token')",
    );
    enter(&mut page, &tenant);

    // A tenant sees its own in every view.
    for view in ["cluster", "queue", "jobs", "fairness", "energy", "estimates", "decisions"] {
        page.click(&format!("nav-{view}"));
        page.wait("the view is drawn", &format!("document.querySelector('main.view-{view} h1') || document.querySelector('main.view-{view} [data-testid=gpu-map]')"));
        std::thread::sleep(Duration::from_millis(300));
        let text = page.eval("document.body.innerText");
        assert!(!text.as_str().unwrap_or_default().contains("speech"), "{view} tells vision of speech: {text}");
    }
    page.click("nav-jobs");
    page.wait("its jobs", "document.querySelectorAll('[data-testid=job-row]').length === 5");

    // Without the mouse: a view by its letter, a row, its job, and back; the form and away again.
    page.press("g");
    page.press("q");
    page.wait(
        "the queue",
        "location.hash.startsWith('#/queue') && document.querySelector('[data-testid=queue-row]') !== null",
    );
    page.press("j");
    page.wait("a row has the focus", "document.activeElement?.dataset.testid === 'queue-row'");
    page.press("Enter");
    page.wait("the job is open", "document.querySelector('[data-testid=explain-text]')?.textContent");
    page.press("Escape");
    page.wait("it is closed", "document.querySelector('#drawer').hidden");
    page.press("n");
    page.wait("the form has the focus", "document.activeElement?.dataset.testid === 'field-workload'");
    page.press("Escape");
    page.wait("the form is closed", "document.querySelector('dialog') === null");
    page.press("t");
    for _ in 0..3 {
        page.press("Tab");
    }
    let outlined = page.eval(
        "getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement === document.body",
    );
    assert_eq!(outlined, json!(true), "what has the focus is seen to have it");
    clean(&mut page, &live, &["401", "429"]);
}

#[test]
fn the_clock_stands_still_when_the_server_is_lost() {
    let header = header(cluster(&[("v100", 2)]), &["vision"], "fifo");
    let mut live = Live::start(&header, 60.0);
    let Some(mut page) = open(&live, &live.admin, 1280, 800) else { return };
    let text = |id: &str| format!("document.querySelector('[data-testid={id}]')?.textContent");
    page.wait("live updates", &format!("{} === 'live'", text("connection")));
    let early = page.eval(&text("clock"));
    page.wait("the clock goes", &format!("{} !== {early}", text("clock")));
    live.hang_up();
    page.wait("the loss is told", &format!("/^connection lost since \\d{{4}}-/.test({})", text("connection")));
    let stopped = page.eval(&text("clock"));
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(page.eval(&text("clock")), stopped, "at 60 times the speed it would be minutes further");
    assert_eq!(page.eval(&text("countdown")), json!("–"));
    // What an older journal may hold is shown, and does no harm.
    let shown = page.eval(
        "import('/dashboard/base.js').then(({ h }) => { const b = h('b', { title: 'x\\u202ey' }, 'a\\u202eb\\u0007c'); return b.title + b.textContent; })",
    );
    assert_eq!(shown, json!("x\u{fffd}ya\u{fffd}b\u{fffd}c"));
}

#[test]
fn a_large_cluster_is_usable() {
    let tenants: Vec<String> = (0..40).map(|i| format!("tenant-{i}")).collect();
    let names: Vec<&str> = tenants.iter().map(String::as_str).collect();
    let header = header(cluster(&[("v100", 4000), ("p100", 4000), ("a100-80gb", 2000)]), &names, "max-min-fairness");
    let live = Live::start(&header, 20.0);
    fill(&live, &tenants, 100_000);
    let Some(mut page) = open(&live, &live.admin, 1280, 800) else { return };
    page.wait("the map", "document.querySelector('[data-testid=gpu-map]')");
    page.wait("10,000 GPUs", "document.querySelector('[data-testid=tile-gpus]')?.textContent.includes('10,000')");
    for view in ["queue", "jobs", "fairness", "energy", "estimates", "decisions", "cluster"] {
        page.click(&format!("nav-{view}"));
        page.wait(
            "the view is drawn",
            &format!("document.querySelector('main.view-{view} .view')?.children.length > 0"),
        );
        std::thread::sleep(Duration::from_millis(500));
        let nodes = page.eval("document.querySelectorAll('*').length").as_u64().unwrap_or(u64::MAX);
        println!("{view}: {nodes} elements");
        assert!(nodes < 6000, "{view} has {nodes} elements");
    }
    page.click("nav-jobs");
    page.wait("rows", "document.querySelectorAll('[data-testid=job-row]').length > 5");
    page.eval("document.querySelector('[data-testid=jobs-scroll]').scrollTop = 2000");
    page.wait("rows further down", "document.querySelectorAll('[data-testid=job-row]').length > 5");
    clean(&mut page, &live, &["401"]);
}

/// Submits many jobs at once, as many hands would.
fn fill(live: &Live, tenants: &[String], jobs: usize) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let workloads = ["resnet50-b64", "resnet18-b64", "transformer-b64", "lm-b20"];
    runtime.block_on(async {
        for start in (0..jobs).step_by(5000) {
            let mut set = tokio::task::JoinSet::new();
            for i in start..jobs.min(start + 5000) {
                let workload =
                    Library::builtin().workload(workloads[i % 4]).map_or("resnet50-b64", |w| w.name.as_str());
                let job = request(&tenants[i % tenants.len()], workload, 1 + (i % 3) as u32, 1e9);
                let desk = live.desk.clone();
                set.spawn(async move { desk.submit(&Caller::loopback(), None, job).await.expect("taken in").0.id });
            }
            while set.join_next().await.is_some() {}
        }
    });
}

/// A cluster in the middle of its week.
fn alive() -> Live {
    let gpus = [("v100", 48), ("p100", 32), ("t4", 24), ("a100-80gb", 24)];
    let live = Live::start(&header(cluster(&gpus), &TENANTS, "max-min-packed"), 600.0);
    for (i, tenant) in TENANTS.iter().enumerate() {
        let weight = json!({"weight": ([3.0, 2.0, 2.0, 1.0, 1.0][i])}).to_string();
        assert_eq!(live.ask("PUT", &format!("/v1/tenants/{tenant}"), &live.admin, &weight).status, 200);
    }
    let of = |model: &str| -> Vec<String> {
        let all = Library::builtin().workloads().iter().map(|workload| workload.name.clone());
        all.filter(|name| name.starts_with(&format!("{model}-b"))).collect()
    };
    let models: [&[&str]; 5] = [
        &["resnet50", "vit-b16", "yolov8m"],
        &["deepspeech2", "wav2vec2"],
        &["bert-base", "gpt2", "transformer"],
        &["ncf", "dlrm", "recommendation"],
        &["a3c", "ppo-atari"],
    ];
    for i in 0..180_usize {
        let tenant = i % 5;
        let sizes = of(models[tenant][i / 5 % models[tenant].len()]);
        let gang = [1, 1, 1, 2, 4, 1, 8][i / 5 % 7];
        let steps = [3e4, 2e5, 1e6, 1e8][i / 3 % 4];
        let name = format!("{}-{i}", ["sweep", "nightly", "ablation", "finetune"][i % 4]);
        live.submit(&json!({"name": name, "tenant": TENANTS[tenant], "workload": sizes[i % sizes.len()], "gang": gang, "steps": steps}));
    }
    let server = |key: &str| live.get("/v1/server")[key].as_f64().unwrap_or(0.0);
    let began = server("now");
    wait_until("two hours are over", || server("now") > began + 7200.0);
    live
}

/// Pictures for the guide, when they are asked for: `ARLES_SCREENSHOTS=1`.
#[test]
fn pictures() {
    // Nothing is checked here, so not taking them is no skip.
    if std::env::var_os("ARLES_SCREENSHOTS").is_none() {
        return;
    }
    let live = alive();
    let Some(mut page) = open(&live, &live.admin, 1280, 800) else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    let take = |page: &mut Page, name: &str| {
        std::thread::sleep(Duration::from_millis(1500));
        let bytes = page.picture();
        println!("{name}: {} bytes", bytes.len());
        std::fs::write(folder.join(format!("dashboard-{name}.png")), bytes).expect("the picture can be written");
    };
    let paper = |page: &mut Page, name: &str| {
        page.eval(&format!("document.documentElement.dataset.theme = '{name}', dispatchEvent(new Event('resize'))"));
    };
    for theme in ["light", "dark"] {
        paper(&mut page, theme);
        for view in ["cluster", "queue", "fairness", "energy", "estimates", "decisions"] {
            // One view on dark paper is enough for the guide.
            if theme == "dark" && view != "cluster" {
                continue;
            }
            page.click(&format!("nav-{view}"));
            page.wait(
                "the view is drawn",
                &format!("document.querySelector('main.view-{view} .view')?.children.length > 0"),
            );
            take(&mut page, &if theme == "dark" { format!("{view}-dark") } else { view.to_owned() });
        }
    }
    for (width, height, name) in [(1440, 900, "wide"), (390, 844, "phone")] {
        page.resize(width, height);
        page.click("nav-cluster");
        for theme in ["light", "dark"] {
            paper(&mut page, theme);
            page.wait("the charts", "document.querySelectorAll('[data-testid=history-chart] svg').length === 4");
            take(&mut page, &format!("{name}-{theme}"));
        }
    }
    paper(&mut page, "light");
    page.resize(720, 900);
    page.click("nav-queue");
    let first: Value = page.wait("a row", "document.querySelector('[data-testid=queue-row]')?.dataset.job");
    page.eval(&format!("location.hash = '#/queue?job={}'", first.as_str().unwrap_or_default()));
    page.wait("its reason", "document.querySelector('[data-testid=explain-text]')?.textContent");
    take(&mut page, "narrow");
    clean(&mut page, &live, &["401"]);
}
