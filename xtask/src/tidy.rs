//! `cargo xtask tidy`: the rules of this repository that code can check (CONTRIBUTING.md has them for people).
//!
//! Every rule is a pure function from a text to findings, tested on small texts that must fail and that must pass. There is no
//! list of exceptions: what a rule finds is mended, or the rule is changed.

mod comments;
mod docs;
mod manifests;
mod rust;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) const USAGE: &str = "cargo xtask tidy";

/// Folders that are not ours to check.
const ELSEWHERE: &[&str] = &["target", "out", "__pycache__", ".git"];

/// Files that are text and ours, by ending.
const TEXTS: &[&str] = &["rs", "md", "toml", "py", "js", "css", "html", "yml", "sh"];

/// Something that is against a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Finding {
    path: String,
    line: usize,
    /// What is wrong, and what to do.
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Findings of one file: a line, counted from 1, and what is wrong there.
type Found = Vec<(usize, String)>;

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("'tidy' takes no arguments, but was given '{unknown}'"));
    }
    let root = crate::cargo::root();
    let mut findings = check(&root)?;
    findings.sort();
    findings.dedup();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        n => Err(format!("tidy: {n} findings")),
    }
}

fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let known = docs::Known::read(root)?;
    for file in files(root)? {
        let ending = file.extension().and_then(|e| e.to_str()).unwrap_or("");
        if !TEXTS.contains(&ending) {
            continue;
        }
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        let text = read(&file)?;
        let mut found = anywhere(&text);
        match ending {
            "rs" => {
                found.extend(rust::check(&path, &text));
                found.extend(comments::check(&text));
            }
            "md" => found.extend(docs::check(&text, &known)),
            "toml" if path.ends_with("Cargo.toml") => found.extend(manifests::check(&text)),
            _ => {}
        }
        findings.extend(found.into_iter().map(|(line, what)| Finding { path: path.clone(), line, what }));
    }
    Ok(findings)
}

/// Rules for every text.
fn anywhere(text: &str) -> Found {
    // Written in pieces, so that this file passes.
    // Ann is the user of all examples.
    let (paths, ann) = ([["/wo", "rk/"].concat(), ["/ho", "me/"].concat()], ["/ho", "me/ann"].concat());
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat()];
    let mut found = Found::new();
    for (number, line) in (1..).zip(text.lines()) {
        for path in &paths {
            if has_absolute(&line.replace(&ann, ""), path) {
                found.push((number, format!("'{path}' is a path of one machine; say it relative to the repository")));
            }
        }
        for mark in &marks {
            if line.contains(mark.as_str()) {
                found.push((number, format!("{mark} is left behind; do it, or open an issue")));
            }
        }
    }
    found
}

/// Whether `path` stands in a line as the beginning of an absolute path.
fn has_absolute(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-/}".contains(c))
    })
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}

/// Every file below a folder, in order of name.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |e: std::io::Error| format!("cannot read the folder {}: {e}", folder.display());
    let mut entries = std::fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !ELSEWHERE.iter().any(|name| entry.file_name() == *name) {
            found.extend(files(&entry.path())?);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Every Rust file below a folder.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = files(folder)?;
    found.retain(|file| file.extension().is_some_and(|ending| ending == "rs"));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_machine_are_found() {
        let home = ["/ho", "me/"].concat();
        assert_eq!(anywhere(&format!("ok\nsee {home}bob/x\n"))[0].0, 2);
        assert_eq!(anywhere(&format!("\"{home}bob\"")).len(), 1);
        assert_eq!(anywhere(&format!("{home}ann/.local/share")), []);
        assert_eq!(anywhere(&format!("src{home}x, ${{ROOT}}{home}x, ./a{home}")), []);
    }

    #[test]
    fn marks_of_unfinished_work_are_found() {
        assert_eq!(anywhere(&["// TO", "DO: later"].concat()).len(), 1);
        assert_eq!(anywhere("// nothing left to do"), []);
    }
}
