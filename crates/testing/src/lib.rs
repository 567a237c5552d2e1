//! What tests of several crates need: how a test says that it was skipped, the measured data beside the checkout, programs
//! that only some machines have.
//!
//! It is a dev-dependency and has none of its own: nothing that ships may depend on it.
//!
//! A test that cannot run calls [`skip`] and returns. The skip is printed, and appended as one line, `test<TAB>reason`, to the
//! file that the environment variable `ARLES_SKIPS` names; `cargo xtask test` sets it, and lists the lines at its end.
//! The Python tests write to the same file. With `CI=true` a skip is a failure, so a machine that lacks something cannot
//! pass by testing less.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Says that the test that calls this is skipped, and why.
///
/// # Panics
///
/// Where `CI` is set (and not to `false`): a skip is a failure there.
pub fn skip(reason: impl Display) {
    let reason = reason.to_string();
    skip_known(&reason);
    let ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
    assert!(!ci, "skipped, which is a failure where CI is set: {reason}");
}

/// The same for a test that no CI machine can run: the list of known skips in `xtask` has its name and says why, and without that the run fails at its end.
///
/// # Panics
///
/// When the file that `ARLES_SKIPS` names cannot be written.
pub fn skip_known(reason: impl Display) {
    let line = line(&test_name(), &reason.to_string());
    println!("skipped: {reason}");
    if let Some(path) = std::env::var_os("ARLES_SKIPS") {
        // One write of one line: other tests append to the same file at the same time.
        let appended = std::fs::OpenOptions::new().append(true).create(true).open(&path);
        appended.and_then(|mut file| file.write_all(line.as_bytes())).expect("ARLES_SKIPS names a file to append to");
    }
}

/// A file or folder of the measured and published data that lies beside the checkout, or `None` after [`skip`].
pub fn shared(path: &str) -> Option<PathBuf> {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if !full.exists() {
        skip(format_args!("there is no ../shared/{path} beside the checkout"));
        return None;
    }
    Some(full)
}

/// A program that a test needs: the environment variable `variable` names it, or one of `names` is on the path. Otherwise
/// `None` after [`skip`], whose reason says how to `install` it.
pub fn program(variable: &str, names: &[&str], install: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    let found = given.into_iter().chain(on_path).find(|file| file.is_file());
    if found.is_none() {
        let wanted = names.join(" or ");
        skip(format_args!("{wanted} is not on the path, and {variable} does not name it; {install}"));
    }
    found
}

/// `binary::module::test`. The harness names each test's thread after the test, and cargo names the binary with a hash.
fn test_name() -> String {
    let binary = std::env::current_exe().ok().and_then(|path| path.file_stem()?.to_str().map(str::to_owned));
    let binary = binary.as_deref().and_then(|name| name.rsplit_once('-')).map_or("", |(name, _)| name);
    format!("{binary}::{}", std::thread::current().name().unwrap_or("?"))
}

/// A line of the file of skips. Whatever is in the reason, it stays one line of two fields.
fn line(test: &str, reason: &str) -> String {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{test}\t{reason}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_of_two_fields() {
        assert_eq!(line("a::b", "no\ttool\n here"), "a::b\tno tool here\n");
    }

    #[test]
    fn a_test_is_named_by_binary_and_path() {
        let name = test_name();
        assert!(name.starts_with("arles_testing::"), "{name}");
    }
}
