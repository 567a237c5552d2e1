//! What was skipped, and why. Tests append `test<TAB>reason` to the file that `ARLES_SKIPS` names, the Rust ones through
//! `arles-testing`, the Python ones through `python/tests/__main__.py`; steps of `cargo xtask test` call [`Skips::add`].
//!
//! With `CI=true` a skip is a failure, unless [`KNOWN`] says why no CI machine can run that test.

use std::path::PathBuf;

/// Tests that CI may skip, each with the reason why it cannot run them.
const KNOWN: &[(&str, &str)] = &[
    (
        "test_huggingface.RealTrainer",
        "needs PyTorch, gigabytes for one test; the callback is tested against a stand-in as well",
    ),
    (
        "kubernetes::modes::",
        "needs Kubernetes 1.27 or later, which Debian does not have; docs/kubernetes.md has its output",
    ),
    (
        "kubernetes::claims::",
        "needs Kubernetes 1.34 or later, which Debian does not have; docs/kubernetes.md has its output",
    ),
];

/// The skips of one run.
pub(crate) struct Skips {
    file: PathBuf,
    own: Vec<(String, String)>,
}

impl Skips {
    /// A fresh file.
    pub(crate) fn new() -> Result<Skips, String> {
        let file = std::env::temp_dir().join(format!("arles-skips-{}", std::process::id()));
        std::fs::write(&file, "").map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        Ok(Skips { file, own: Vec::new() })
    }

    /// For the environment of tests.
    pub(crate) fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// A step that was skipped as a whole.
    pub(crate) fn add(&mut self, step: &str, reason: &str) {
        eprintln!("   skipped: {reason}");
        self.own.push((step.to_owned(), reason.to_owned()));
    }

    /// Lists everything that was skipped; an error where `ci` allows none.
    pub(crate) fn conclude(self, ci: bool) -> Result<(), String> {
        let text = std::fs::read_to_string(&self.file).map_err(|e| format!("cannot read the skips: {e}"))?;
        let _ = std::fs::remove_file(&self.file);
        let (summary, failed) = summary(self.own, &text, ci);
        eprint!("{summary}");
        if failed { Err("a skip is a failure where CI is set".to_owned()) } else { Ok(()) }
    }
}

/// Whether this run is CI's.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false")
}

/// The list of skips as it is printed, and whether it is a failure.
fn summary(mut skips: Vec<(String, String)>, text: &str, ci: bool) -> (String, bool) {
    skips.extend(text.lines().map(|line| {
        let (test, reason) = line.split_once('\t').unwrap_or((line, "no reason was given"));
        (test.to_owned(), reason.to_owned())
    }));
    skips.sort();
    skips.dedup();
    let mut out = format!("== {} skipped{}\n", skips.len(), if skips.is_empty() { "" } else { ":" });
    let mut failed = false;
    for (test, reason) in &skips {
        let known = KNOWN.iter().find(|(name, _)| test.starts_with(name));
        failed |= ci && known.is_none();
        let known = known.map(|(_, why)| format!(" (allowed in CI: {why})")).unwrap_or_default();
        out += &format!("   {test}: {reason}{known}\n");
    }
    (out, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_counted_and_fail_in_ci_alone() {
        assert_eq!(summary(vec![], "", true), ("== 0 skipped\n".to_owned(), false));
        let text = "a::b\tno tool\na::b\tno tool\nc::d\tno data\n";
        let listed = "== 2 skipped:\n   a::b: no tool\n   c::d: no data\n";
        assert_eq!(summary(vec![], text, false), (listed.to_owned(), false));
        assert_eq!(summary(vec![], text, true), (listed.to_owned(), true));
        assert!(summary(vec![("python".into(), "no python3".into())], "", true).1);
    }

    #[test]
    fn known_skips_pass_in_ci_with_their_reason() {
        let (listed, failed) = summary(vec![], "test_huggingface.RealTrainer.test_x\tno torch\n", true);
        assert!(!failed && listed.contains("allowed in CI: needs PyTorch"), "{listed}");
    }
}
