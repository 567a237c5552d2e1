//! Tokens of jobs: what a job's own code reports with, so that nobody's token has to be in its environment.
//!
//! The token of job 17 is `arles_job_17_` and a keyed hash of its number. None is stored: the key is, in a file beside the journal, so that
//! daemons which share the folder take each other's. Such a token is good for its job's progress alone.

use crate::access::{Caller, Scope, hex, random_hex};
use crate::store::private;
use arles_core::engine::LiveJob;
use arles_core::{JobId, Program};
use ring::hmac;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The file with the key, in the state folder.
const KEY_FILE: &str = "job-tokens.key";
const PREFIX: &str = "arles_job_";
/// What training code looks for.
const VARIABLE: &str = "ARLES_TOKEN";

/// Makes and recognises tokens of jobs.
pub(crate) struct JobTokens {
    key: hmac::Key,
}

impl JobTokens {
    /// With the key of this state folder; there is one from the first start on.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let mut file = private::file(&folder.join(KEY_FILE))?;
        let mut key = String::new();
        file.read_to_string(&mut key)?;
        if key.trim().len() < 64 {
            key = random_hex(32);
            file.set_len(0)?;
            file.write_all(format!("{key}\n").as_bytes())?;
            file.sync_all()?;
        }
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, key.trim().as_bytes()) })
    }

    fn token(&self, job: JobId) -> String {
        format!("{PREFIX}{}_{}", job.0, hex(hmac::sign(&self.key, job.0.to_string().as_bytes()).as_ref()))
    }

    /// The job whose token this is.
    pub(crate) fn job_of(&self, secret: &str) -> Option<JobId> {
        let (number, tag) = secret.strip_prefix(PREFIX)?.split_once('_')?;
        let job: u64 = number.parse().ok()?;
        let digit = |at: usize| u8::from_str_radix(tag.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Vec<u8> = (0..tag.len() / 2).map(digit).collect::<Option<_>>()?;
        // Only as it was written: neither 017 nor capital digits.
        let exact = self.token(JobId(job)).len() == secret.len() && job.to_string() == number;
        (exact && hmac::verify(&self.key, number.as_bytes(), &bytes).is_ok()).then_some(JobId(job))
    }

    /// The caller that a job's own code is.
    pub(crate) fn caller(job: JobId, tenant: String) -> Caller {
        let name = format!("job {}", job.0);
        Caller { id: name.clone(), name, scope: Scope::Tenant, tenant: Some(tenant), address: None, job: Some(job.0) }
    }

    /// The job with its token in its program's environment, unless its submitter put one there.
    pub(crate) fn given(&self, mut job: LiveJob) -> LiveJob {
        if let Some(program) = job.spec.program.as_deref().filter(|program| !program.environment.contains_key(VARIABLE))
        {
            let mut environment = program.environment.clone();
            environment.insert(VARIABLE.to_owned(), self.token(job.spec.id));
            job.spec.program = Some(Arc::new(Program { environment, ..program.clone() }));
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arles_core::JobSpec;

    #[test]
    fn a_token_belongs_to_one_job_of_one_folder() {
        let folder = std::env::temp_dir().join(format!("arles-job-tokens-{}", std::process::id()));
        let other = folder.join("other");
        std::fs::create_dir_all(&other).expect("ours");
        let tokens = JobTokens::open(&folder).expect("a key");
        let token = tokens.token(JobId(17));
        assert_eq!(tokens.job_of(&token), Some(JobId(17)));
        assert_eq!(JobTokens::open(&folder).expect("the same key").job_of(&token), Some(JobId(17)));
        assert_eq!(JobTokens::open(&other).expect("another key").job_of(&token), None);
        for wrong in ["", "arles_job_", "arles_job_17_", "arles_job_17_zz", "arles_job__é"] {
            assert_eq!(tokens.job_of(wrong), None, "{wrong}");
        }
        for forged in
            [token.replace("_17_", "_18_"), token.replace("_17_", "_017_"), token[..token.len() - 2].to_owned()]
        {
            assert_eq!(tokens.job_of(&forged), None, "{forged}");
        }
        std::fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn a_program_gets_its_token_unless_it_has_one() {
        let folder = std::env::temp_dir().join(format!("arles-job-tokens-given-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("ours");
        let tokens = JobTokens::open(&folder).expect("a key");
        let job = |environment: &[(&str, &str)]| {
            let environment = environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            let program = Some(Arc::new(Program { environment, ..Program::default() }));
            LiveJob { spec: JobSpec { id: JobId(5), program, ..JobSpec::default() }, steps_done: 0.0 }
        };
        let token = |job: LiveJob| job.spec.program.expect("one").environment[VARIABLE].clone();
        assert_eq!(tokens.job_of(&token(tokens.given(job(&[])))), Some(JobId(5)));
        assert_eq!(token(tokens.given(job(&[(VARIABLE, "mine")]))), "mine");
        let none = LiveJob { spec: JobSpec::default(), steps_done: 0.0 };
        assert_eq!(tokens.given(none.clone()), none);
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
