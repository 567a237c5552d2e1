//! The examples in the documentation are what the commands print today.
//!
//! A block of a page with lines `$ COMMAND` is run, line by line, in one folder for the whole page, in a terminal of 80 columns; what
//! stands below a command is what it prints, on stdout and stderr. A line `...` stands for any lines. A comment right above a block says more:
//!
//! - `<!-- example: file NAME -->`: the block is the content of a file that later commands read;
//! - `<!-- example: needs PATH as NAME -->`: a command reads this file of `../shared`; skipped where it is not there (may be repeated);
//! - `<!-- example: not run, REASON -->`: skipped;
//! - `<!-- example: exception NAME -->`: may differ as long as [`EXCEPTIONS`] has the name.
//!
//! `ARLES_BLESS=1 cargo test --test docs` writes today's outputs into the pages; read the difference before you commit it.

#[path = "support/golden.rs"]
mod golden;

use arles_testing::shared;
use golden::check;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pages whose examples are run.
const PAGES: &[&str] = &["docs/cli.md", "docs/catalog.md", "docs/scale.md", "./README.md"];

/// Blocks that are known to be wrong in the page or in the program. Empty is the aim.
const EXCEPTIONS: &[&str] = &[];

const INDENT: &str = "    ";
const ELISION: &str = "...";

/// A run of indented lines, and what the comments above it say.
struct Block {
    /// Its first line in the page, counted from 0.
    at: usize,
    lines: Vec<String>,
    notes: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blocks(page: &str) -> Vec<Block> {
    let lines: Vec<&str> = page.lines().collect();
    let (mut blocks, mut notes, mut i) = (Vec::new(), Vec::new(), 0);
    while i < lines.len() {
        if let Some(note) = lines[i].strip_prefix("<!-- example: ").and_then(|rest| rest.strip_suffix(" -->")) {
            notes.push(note.to_owned());
        } else if lines[i].starts_with(INDENT) {
            let at = i;
            // Empty lines belong to a block if it goes on after them.
            while i < lines.len() && (lines[i].starts_with(INDENT) || lines[i].is_empty()) {
                i += 1;
            }
            while lines[i - 1].is_empty() {
                i -= 1;
            }
            let text = |line: &&str| line.strip_prefix(INDENT).unwrap_or("").to_owned();
            blocks.push(Block {
                at,
                lines: lines[at..i].iter().map(text).collect(),
                notes: std::mem::take(&mut notes),
            });
            continue;
        } else if !lines[i].is_empty() {
            assert!(notes.is_empty(), "a note stands above no block: {notes:?}");
        }
        i += 1;
    }
    blocks
}

/// Whether a text is what a page says it is, elisions apart.
fn fits(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == ELISION => (0..=printed.len()).any(|from| fits(rest, &printed[from..])),
        Some((line, rest)) => printed.first() == Some(line) && fits(rest, &printed[1..]),
    }
}

/// What a page should say: as many lines as it had between its elisions.
fn renewed(expected: &[String], printed: &[String]) -> Vec<String> {
    let parts: Vec<&[String]> = expected.split(|line| line == ELISION).collect();
    let last = parts.len() - 1;
    if last == 0 {
        return printed.to_vec();
    }
    let mut lines: Vec<String> = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let found = || part.first().and_then(|first| printed.iter().position(|line| line == first));
        let from = match i {
            0 => 0,
            i if i == last => printed.len() - part.len().min(printed.len()),
            _ => found().unwrap_or_else(|| panic!("nothing begins with '{}' any more; edit the page", part[0])),
        };
        lines.extend(printed[from..].iter().take(part.len()).cloned());
        lines.extend((i < last).then(|| ELISION.to_owned()));
    }
    lines
}

/// Runs a line of shell where `arles` is the binary under test; stdout and stderr together.
fn run(folder: &Path, line: &str) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_arles")).parent().expect("it is in a folder");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec 2>&1; {line}")).current_dir(folder).env("PATH", path).env("COLUMNS", "80");
    for name in ["ARLES_URL", "ARLES_TOKEN", "ARLES_TOKEN_FILE", "ARLES_CA", "ARLES_JOB"] {
        command.env_remove(name);
    }
    let output = command.env("ARLES_CATALOG", "catalog.sqlite").output().expect("there is a shell");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Why a block is not run here; what it needs is put into the folder.
fn skipped(block: &Block, folder: &Path) -> Option<String> {
    for note in &block.notes {
        if let Some(reason) = note.strip_prefix("not run, ") {
            return Some(reason.to_owned());
        }
        if let Some((path, name)) = note.strip_prefix("needs ").and_then(|rest| rest.split_once(" as ")) {
            let Some(data) = shared(path) else { return Some(format!("{path} is not there")) };
            std::fs::write(folder.join(name), std::fs::read(data).expect("it can be read")).expect("it can be copied");
        }
    }
    None
}

/// The block as it should be: every command with what it prints now.
fn renew(block: &Block, folder: &Path, ran: &mut HashMap<String, Vec<String>>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = block.lines.as_slice();
    while let Some((line, below)) = rest.split_first() {
        let Some(command) = line.strip_prefix("$ ") else { panic!("'{line}' stands above the first command") };
        let end = below.iter().position(|line| line.starts_with("$ ")).unwrap_or(below.len());
        let gap = below[..end].iter().rev().take_while(|line| line.is_empty()).count();
        let expected = &below[..end - gap];
        let printed = ran.entry(command.to_owned()).or_insert_with(|| run(folder, command));
        lines.push(line.clone());
        lines.extend(if fits(expected, printed) { expected.to_vec() } else { renewed(expected, printed) });
        lines.extend(std::iter::repeat_n(String::new(), gap));
        rest = &below[end..];
    }
    lines
}

/// Runs a page's examples; returns the page as it should be.
fn rewritten(name: &str, page: &str, folder: &Path, ran: &mut HashMap<String, Vec<String>>) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    let mut edits = Vec::new();
    for block in blocks(page) {
        if let Some(file) = block.notes.iter().find_map(|note| note.strip_prefix("file ")) {
            std::fs::write(folder.join(file), block.lines.join("\n") + "\n").expect("the folder can be written");
        }
        if !block.lines[0].starts_with("$ ") {
            continue;
        }
        let place = format!("{name}:{}: {}", block.at + 1, block.lines[0]);
        if let Some(why) = skipped(&block, folder) {
            println!("skipped: {place}: {why}");
            continue;
        }
        let now = renew(&block, folder, ran);
        let exception = block.notes.iter().find_map(|note| note.strip_prefix("exception "));
        match exception.filter(|name| now != block.lines && EXCEPTIONS.contains(name)) {
            Some(name) => println!("excepted: {place}: {name}"),
            None => edits.push((block, now)),
        }
    }
    // From the end, so that what is above keeps its place.
    for (block, now) in edits.into_iter().rev() {
        let indented = now.iter().map(|line| format!("{INDENT}{line}").trim_end().to_owned());
        lines.splice(block.at..block.at + block.lines.len(), indented);
    }
    lines.join("\n") + "\n"
}

#[test]
fn examples_are_what_the_commands_print() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("docs");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    let mut ran = HashMap::new();
    for name in PAGES {
        let page = std::fs::read_to_string(root().join(name)).expect("the page is there");
        check(name, &rewritten(name, &page, &folder, &mut ran));
    }
}

#[test]
fn elisions_stand_for_any_lines() {
    let lines = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    assert!(fits(&lines("a|...|d"), &lines("a|b|c|d")) && fits(&lines("...|c|..."), &lines("a|b|c|d")));
    assert!(!fits(&lines("a|...|c"), &lines("a|b|c|d")) && !fits(&lines("a|b"), &lines("a|b|c")));
    assert_eq!(renewed(&lines("x|y|..."), &lines("a|b|c|d")), lines("a|b|..."));
    assert_eq!(renewed(&lines("...|b|x|..."), &lines("a|b|c|d")), lines("...|b|c|..."));
    assert_eq!(renewed(&lines("x"), &lines("a|b")), lines("a|b"));
}
