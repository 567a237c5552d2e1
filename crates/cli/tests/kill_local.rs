//! A daemon that runs real processes is killed at random points: no process is lost, and none runs twice.
//!
//! Jobs are witnesses themselves: each makes a folder while it runs, and one for every GPU that it holds; whoever finds one there already
//! writes that down. They go on while the daemon is dead, are stopped and continued by it when it lives, and leave a line when they have done all
//! their work. In the end every job that was acknowledged has completed, has left a line (and no more than it was started), nothing runs, and no folder is left.
//!
//! `ARLES_LOCAL_KILLS` is how often it is killed (25), and `ARLES_KILL_SEED` decides when (1); `cargo xtask kill --local --times N` sets them.

mod plain;

use plain::{Daemon, Door, Folder, wait_until};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Takes a step in 40 ms; goes on from where it was when it was stopped.
const JOB: &str = r#"
me=$WITNESS/job-$ARLES_JOB
take() { mkdir "$1" 2>/dev/null || echo "$1 was there when $ARLES_JOB came" >>"$WITNESS/violations"; }
leave() { for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do rmdir "$WITNESS/gpu-$gpu"; done; rmdir "$me"; }
take "$me"
for gpu in $(echo "$CUDA_VISIBLE_DEVICES" | tr , ' '); do take "$WITNESS/gpu-$gpu"; done
trap 'leave; exit 85' TERM
steps=$(cat "$me.steps" 2>/dev/null || echo 0)
while [ "$steps" -lt "$1" ]; do
  sleep 0.04 &
  wait $!
  steps=$((steps + 1))
  echo "$steps" >"$me.steps.new" && mv "$me.steps.new" "$me.steps"
done
echo "$steps" >>"$me.ended"
leave
"#;

struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn daemon(folder: &Path) -> Daemon {
    let flags =
        ["--engine", "local", "--declare", "v100:2,k80:2", "--round", "1s", "--survey", "1s", "--restart", "0s"];
    Daemon::start_with(folder, "v100:1", 1, &flags.map(str::to_owned))
}

/// Submits a job; its number, unless nobody answered.
fn submit(to: &Door, folder: &Path, key: u64, steps: u64, gang: u64) -> Option<u64> {
    let witness = folder.join("witness");
    let tenant = ["research", "vision", "language"][(key % 3) as usize];
    let body = serde_json::json!({
        "tenant": tenant,
        "gang": gang,
        "program": {
            "command": ["/bin/sh", folder.join("job.sh"), steps.to_string()],
            "environment": {"WITNESS": witness},
        },
    });
    let (status, answer) = to.call("POST", "/v1/jobs", Some(&format!("key-{key}")), Some(&body.to_string())).ok()?;
    assert!([200, 201, 503].contains(&status), "{status}: {answer}");
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("answers are JSON");
    answer["id"].as_u64()
}

#[test]
fn no_process_is_lost_and_none_runs_twice() {
    let (kills, seed) = (number("ARLES_LOCAL_KILLS", 25), number("ARLES_KILL_SEED", 1));
    let folder = Folder::new("kill-local");
    let (here, witness) = (folder.0.as_path(), folder.0.join("witness"));
    std::fs::create_dir_all(&witness).expect("ours");
    std::fs::write(here.join("job.sh"), JOB).expect("ours");
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut jobs, mut key) = (Vec::new(), 0);
    let mut first = daemon(here);
    let mut door = Door::new(vec![first.address()]);
    for _ in 0..kills {
        for _ in 0..1 + draw.below(2) {
            let (steps, gang) = (2 + draw.below(30), 1 + draw.below(3) / 2);
            jobs.extend(submit(&door, here, key, steps, gang));
            key += 1;
        }
        std::thread::sleep(Duration::from_millis(draw.below(1200)));
        first.kill();
        // What runs goes on, and may end, while nobody looks.
        std::thread::sleep(Duration::from_millis(draw.below(300)));
        first = daemon(here);
        // Sometimes it is killed before it is ready.
        if draw.below(4) == 0 {
            std::thread::sleep(Duration::from_millis(draw.below(150)));
            first.kill();
            first = daemon(here);
        }
        door = Door::new(vec![first.address()]);
    }
    let state_of = |job: u64| {
        let (status, answer) = door.call("GET", &format!("/v1/jobs/{job}"), None, None).expect("it answers");
        assert_eq!(status, 200, "job {job} was acknowledged: {answer}");
        serde_json::from_str::<serde_json::Value>(&answer).expect("JSON")["state"].as_str().unwrap_or("").to_owned()
    };
    let mut open = jobs.clone();
    wait_until("all jobs are over", || {
        open.retain(|&job| ["waiting", "starting", "running", "stopping"].contains(&state_of(job).as_str()));
        open.is_empty()
    });
    let violations = std::fs::read_to_string(witness.join("violations")).unwrap_or_default();
    assert_eq!(violations, "", "something ran twice");
    let mut restarts = 0;
    for &job in &jobs {
        assert_eq!(state_of(job), "completed", "job {job}");
        let (_, shown) = door.call("GET", &format!("/v1/jobs/{job}"), None, None).expect("it answers");
        let own = serde_json::from_str::<serde_json::Value>(&shown).expect("JSON")["restarts"].as_u64().unwrap_or(0);
        restarts += own;
        // One that is told to stop while it ends has been stopped, whatever it did, and is started once more from its last step.
        let ended = std::fs::read_to_string(witness.join(format!("job-{job}.ended"))).unwrap_or_default();
        let ends = ended.lines().count() as u64;
        assert!((1..=1 + own).contains(&ends), "job {job} ended {ended:?} and was started again {own} times");
    }
    // A job is over a moment before its shim has left.
    wait_until("nobody has left without a word", || {
        let mut left = std::fs::read_dir(&witness).expect("ours").flatten();
        left.all(|entry| !entry.path().is_dir())
    });
    let script = here.join("job.sh");
    wait_until("there are no processes that nobody knows", || {
        Command::new("pgrep").arg("-f").arg(&script).output().expect("pgrep is there").stdout.is_empty()
    });
    first.stop();
    println!("seed {seed}: killed {kills} times; {} jobs, {restarts} restarts: none lost, none twice", jobs.len());
}
