//! A daemon that runs programs of this machine, through the command line: what jobs print, how they end, and what their own token is good for.

mod plain;

use arles_api::client::{Client, ClientError};
use plain::{ARLES, Daemon, Folder, wait_until};
use serde_json::{Value, json};
use std::process::Command;

struct Stage {
    folder: Folder,
    daemon: Daemon,
    url: String,
}

impl Stage {
    fn set(name: &str) -> Self {
        let folder = Folder::new(name);
        let flags = ["--engine", "local", "--declare", "v100:2", "--round", "1s", "--survey", "1s"];
        let mut daemon = Daemon::start_with(&folder.0, "v100:1", 1, &flags.map(str::to_owned));
        let url = format!("http://{}", daemon.address());
        Self { folder, daemon, url }
    }

    fn client(&self, token: Option<&str>) -> Client {
        Client::new(&self.url, token.map(str::to_owned), None).expect("a client")
    }

    fn submit(&self, tenant: &str, script: &str) -> u64 {
        let body = json!({"tenant": tenant, "retries": 0, "program": {"command": ["/bin/sh", "-c", script]}});
        let job: Value = self.client(None).post("/v1/jobs", &body, None).expect("it is taken");
        job["id"].as_u64().expect("a number")
    }

    fn arles(&self, words: &[&str]) -> (i32, String, String) {
        let done = Command::new(ARLES).args(words).args(["--server", &self.url]).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
    }
}

fn status<T>(answer: Result<T, ClientError>) -> u16 {
    match answer {
        Ok(_) => 200,
        Err(ClientError::Refused { status, .. }) => status,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn logs_are_shown_followed_and_cut() {
    let mut stage = Stage::set("logs");
    let job = stage.submit("vision", "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done; echo oops >&2; exit 3");
    // Following ends when the job does.
    let (code, out, _) = stage.arles(&["logs", "-f", &job.to_string()]);
    assert_eq!((code, out.as_str()), (0, "line 1\nline 2\nline 3\nline 4\nline 5\noops\n"));
    assert_eq!(stage.arles(&["logs", "-n", "2", &job.to_string()]).1, "line 5\noops\n");
    assert_eq!(stage.arles(&["logs", "--stderr", &job.to_string()]).1, "", "it has no file of its own for it");
    let (_, shown, _) = stage.arles(&["show", &job.to_string()]);
    assert!(shown.lines().any(|line| line.starts_with("exit code") && line.trim_end().ends_with('3')), "{shown}");
    let (code, _, said) = stage.arles(&["logs", "999"]);
    assert!(code == 2 && said.contains("job 999 does not exist"), "{code} {said}");
    let part: Value = stage.client(None).get(&format!("/v1/jobs/{job}/logs?from=5&bytes=6")).expect("a part");
    assert_eq!(
        (part["text"].as_str(), part["from"].as_u64(), part["next"].as_u64()),
        (Some("1\nline"), Some(5), Some(11))
    );
    // A tenant reads its own and nobody else's; who may only read reads none.
    for (scope, tenant, expected) in
        [("tenant", Some("vision"), 200), ("tenant", Some("language"), 404), ("read", None, 403)]
    {
        let name = format!("{scope}-{}", tenant.unwrap_or("any"));
        let mut request = json!({"name": name, "scope": scope});
        if let Some(tenant) = tenant {
            request["tenant"] = json!(tenant);
        }
        let token: Value = stage.client(None).post("/v1/tokens", &request, None).expect("a token");
        let secret = token["secret"].as_str().expect("it is told once");
        let answer = stage.client(Some(secret)).get::<Value>(&format!("/v1/jobs/{job}/logs"));
        assert_eq!(status(answer), expected, "{name}");
    }
    stage.daemon.stop();
}

#[test]
fn a_job_reports_with_a_token_of_its_own() {
    let mut stage = Stage::set("job-token");
    let job = stage.submit("vision", "echo \"$ARLES_TOKEN\"; sleep 60");
    let other = stage.submit("vision", "sleep 60");
    let mut token = String::new();
    wait_until("it has printed its token", || {
        token = stage.arles(&["logs", &job.to_string()]).1.trim().to_owned();
        token.starts_with(&format!("arles_job_{job}_"))
    });
    let own = stage.client(Some(&token));
    let report = |job: u64| own.post::<_, Value>(&format!("/v1/jobs/{job}/progress"), &json!({"steps": 7.0}), None);
    assert_eq!(report(job).expect("its own")["action"], "continue");
    assert_eq!(status(report(other)), 404, "another job, although of the same tenant");
    for path in
        [format!("/v1/jobs/{job}"), format!("/v1/jobs/{job}/logs"), "/v1/queue".to_owned(), "/v1/server".to_owned()]
    {
        assert_eq!(status(own.get::<Value>(&path)), 403, "{path}");
    }
    assert_eq!(status(own.delete::<Value>(&format!("/v1/jobs/{job}"))), 403);
    let forged = stage.client(Some(&token.replace(&format!("_{job}_"), &format!("_{other}_"))));
    assert_eq!(status(forged.get::<Value>("/v1/server")), 401);
    wait_until("the report counts", || {
        let shown: Value = stage.client(None).get(&format!("/v1/jobs/{job}")).expect("it is there");
        shown["reported"]["steps"] == json!(7.0)
    });
    // Nobody finds it in what the job was submitted with, nor in the gang's folder.
    let shown: Value = stage.client(None).get(&format!("/v1/jobs/{job}")).expect("it is there");
    assert!(!shown.to_string().contains(&token));
    assert!(!stage.folder.0.join("state/gangs").join(format!("{job}-1/task.json")).exists());
    for job in [job, other] {
        stage.client(None).delete::<Value>(&format!("/v1/jobs/{job}")).expect("it is cancelled");
    }
    wait_until("nothing runs", || stage.arles(&["queue", "-o", "csv"]).1.lines().count() <= 1);
    stage.daemon.stop();
}
