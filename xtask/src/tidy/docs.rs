//! Commands that the documents name exist: `arles COMMAND --flag` by the help texts kept beside the tests of the command line,
//! `cargo xtask TASK`, `cargo bench -p X --bench Y` and `cargo test --test Z` by the tree.

use super::{Found, files, read};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Commands and targets that exist.
#[derive(Default)]
pub(super) struct Known {
    /// Help texts by command: "" for `arles --help`, "catalog import" for that.
    helps: BTreeMap<String, String>,
    /// Targets of every package: ("arles-lp", "bench", "maxmin").
    targets: BTreeSet<(String, &'static str, String)>,
}

impl Known {
    pub(super) fn read(root: &Path) -> Result<Known, String> {
        let mut known = Known::default();
        for file in files(&root.join("crates"))? {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("");
            let golden = file.parent().is_some_and(|folder| folder.ends_with("golden"));
            if golden && let Some(command) = name.strip_prefix("help").and_then(|rest| rest.strip_suffix(".txt")) {
                known.helps.insert(command.trim_start_matches('-').to_owned(), read(&file)?);
            }
            if name == "Cargo.toml" {
                known.add_package(&read(&file)?);
                let package = package(&read(&file)?);
                let tests = file.with_file_name("tests");
                for test in if tests.is_dir() { files(&tests)? } else { Vec::new() } {
                    if test.parent() == Some(&tests)
                        && let Some(stem) = test.file_stem().and_then(|s| s.to_str())
                    {
                        known.targets.insert((package.clone(), "test", stem.to_owned()));
                    }
                }
            }
        }
        if known.helps.is_empty() {
            return Err("no help texts (golden/help*.txt) below crates/; tidy reads the commands from them".to_owned());
        }
        Ok(known)
    }

    fn add_package(&mut self, manifest: &str) {
        let package = package(manifest);
        self.targets.insert((package.clone(), "package", String::new()));
        let mut section = "";
        for line in manifest.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line;
            } else if section == "[[bench]]"
                && let Some(name) = value(line, "name")
            {
                self.targets.insert((package.clone(), "bench", name));
            }
        }
    }

    fn has(&self, package: Option<&str>, kind: &str, name: &str) -> bool {
        self.targets.iter().any(|(p, k, n)| package.is_none_or(|wanted| p == wanted) && *k == kind && n == name)
    }
}

/// The name of the package of a manifest.
fn package(manifest: &str) -> String {
    manifest.lines().find_map(|line| value(line, "name")).unwrap_or_default()
}

/// The text of `key = "text"`.
fn value(line: &str, key: &str) -> Option<String> {
    let rest = line.trim().strip_prefix(key)?.trim_start().strip_prefix('=')?;
    Some(rest.trim().trim_matches('"').to_owned())
}

pub(super) fn check(text: &str, known: &Known) -> Found {
    let mut found = Found::new();
    for (number, code) in code(text) {
        for command in code.split([';', '|', '&', '(']) {
            // A comment of the shell ends the command.
            let words: Vec<&str> = command.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            let begin = words.iter().position(|word| *word != "$" && !word.contains('=')).unwrap_or(0);
            let wrong = match words.get(begin..) {
                Some(["arles", rest @ ..]) => arles(rest, known),
                Some(["cargo", "xtask", rest @ ..]) => xtask(rest),
                Some(["cargo", "bench" | "test" | "run", rest @ ..]) => cargo(rest, known),
                _ => None,
            };
            found.extend(wrong.map(|what| (number, format!("{what}; say what there is"))));
        }
    }
    found
}

/// The code of a document, with its lines: blocks in fences that are a shell's or nobody's, blocks that are indented, spans.
fn code(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut fence: Option<bool> = None;
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(["", "sh", "bash", "shell", "console", "text"].contains(&language.trim())),
            };
            continue;
        }
        let block = fence == Some(true) || fence.is_none() && line.starts_with("    ");
        if block {
            let (line, more) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
            match out.last_mut() {
                Some((_, last)) if goes_on => last.push_str(line),
                _ => out.push((number, line.to_owned())),
            }
            goes_on = more;
        } else if fence.is_none() {
            out.extend(line.split('`').skip(1).step_by(2).map(|span| (number, span.to_owned())));
        }
    }
    out
}

/// What is wrong with `arles WORDS`.
fn arles(words: &[&str], known: &Known) -> Option<String> {
    let words: Vec<&str> = words.iter().take_while(|word| **word != "--").copied().collect();
    let main = known.helps.get("")?;
    let command = words.first().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))?;
    if !lists(main, command) {
        return Some(format!("there is no command 'arles {command}'"));
    }
    let mut name = (*command).to_owned();
    let mut help = known.helps.get(*command);
    if let Some(second) = words.get(1)
        && help.is_some_and(|help| lists(help, second))
    {
        // Where the help of such a command is not kept, its flags are not checked.
        help = known.helps.get(&format!("{command}-{second}"));
        name = format!("{command} {second}");
    }
    let help = help?;
    let flags = words.iter().filter(|word| word.starts_with('-') && word.len() > 1 && !word.starts_with("---"));
    let unknown = |flag: &&&str| {
        let flag = flag.split(['=', ',']).next().unwrap_or(flag).trim_end_matches(['.', ']', ')', '\'', '"']);
        // `-5` is a number.
        flag[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '-') && !has_flag(help, flag)
    };
    let flag = flags.clone().find(unknown)?;
    Some(format!("'arles {name}' has no {flag}"))
}

/// Whether a help text lists a command.
fn lists(help: &str, command: &str) -> bool {
    let Some((_, commands)) = help.split_once("Commands:\n") else { return false };
    commands.lines().take_while(|line| !line.is_empty()).any(|line| {
        line.strip_prefix("  ")
            .is_some_and(|line| line.split_whitespace().next() == Some(command) && !line.starts_with(' '))
    })
}

fn has_flag(help: &str, flag: &str) -> bool {
    help.match_indices(flag).any(|(at, _)| {
        !help[at + flag.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '-')
            && help[..at].ends_with([' ', '<', '|'])
    })
}

/// What is wrong with `cargo xtask WORDS`.
fn xtask(words: &[&str]) -> Option<String> {
    let task = words.first().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))?;
    let Some(task) = crate::TASKS.iter().find(|known| known.name == *task) else {
        return Some(format!("there is no task 'cargo xtask {task}'"));
    };
    let flag = words
        .iter()
        .filter(|word| word.starts_with("--"))
        .find(|flag| !has_flag(&task.usage.replace('[', " "), flag))?;
    Some(format!("'cargo xtask {}' has no {flag}", task.name))
}

/// What is wrong with a `cargo` command that names a package, a bench or a test.
fn cargo(words: &[&str], known: &Known) -> Option<String> {
    let after =
        |flags: &[&str]| words.iter().position(|word| flags.contains(word)).and_then(|at| words.get(at + 1)).copied();
    let real = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
    let package = after(&["-p", "--package"]).filter(real);
    if let Some(package) = package
        && package != "xtask"
        && !known.has(Some(package), "package", "")
    {
        return Some(format!("there is no package '{package}'"));
    }
    for (flag, kind) in [("--bench", "bench"), ("--test", "test")] {
        if let Some(name) = after(&[flag]).filter(real)
            && !known.has(package, kind, name)
        {
            return Some(format!("there is no {kind} '{name}' in {}", package.unwrap_or("any package")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let mut known = Known::default();
        let main = "Usage\n\nCommands:\n  serve    Run it\n           on --world\n  catalog  Look\n  run      Run\n\nOptions:\n  -h, --help\n";
        known.helps.insert(String::new(), main.to_owned());
        known.helps.insert(
            "serve".into(),
            "Usage: arles serve\n\nOptions:\n  -o, --output <F>\n      --open-loopback\n".into(),
        );
        known.helps.insert("catalog".into(), "Commands:\n  list  List\n  show  Show\n\nOptions:\n".into());
        known.helps.insert("catalog-list".into(), "Options:\n      --kind <KIND>\n".into());
        known.helps.insert("run".into(), "Options:\n      --every <TIME>\n".into());
        known.add_package("[package]\nname = \"arles-lp\"\n[[bench]]\nname = \"maxmin\"\n");
        known.targets.insert(("arles-lp".into(), "test", "simplex".into()));
        known
    }

    #[track_caller]
    fn finds(text: &str, part: &str) {
        let found = check(text, &known());
        assert!(found.len() == 1 && found[0].1.contains(part), "{text}: {found:?}");
    }

    #[test]
    fn what_does_not_exist_is_found() {
        finds("Say `arles server`.", "no command 'arles server'");
        finds("    $ arles serve --open-loopbak\n", "'arles serve' has no --open-loopbak");
        finds("```\narles catalog list --open-loopback\n```\n", "'arles catalog list' has no");
        finds("    ARLES_X=1 arles serve > f; arles sevre\n", "sevre");
        finds("    arles serve \\\n      --nothing\n", "--nothing");
        finds("`arles serve -q`", "-q");
        finds("`cargo xtask nothing`", "no task 'cargo xtask nothing'");
        finds("`cargo xtask kill --tims 3`", "--tims");
        finds("    cargo bench -p arles-lp --bench nothing   # x\n", "no bench 'nothing' in arles-lp");
        finds("`cargo bench -p nothing`", "no package 'nothing'");
        finds("`cargo test --release --test nothing`", "no test 'nothing'");
    }

    #[test]
    fn what_exists_passes() {
        let text = "`arles`, `arles --help`, `arles serve --open-loopback -o json`, `arles run -- a --b`, `arles catalog show --x`\n\n    \
            $ arles catalog list --kind=v100 # not --this\n    arles COMMAND --flag\n\n```python\narles nothing\n```\n\
            `cargo xtask kill --times N`, `cargo xtask TASK`, `cargo bench -p arles-lp --bench maxmin`, `cargo test --test simplex`\n";
        assert_eq!(check(text, &known()), []);
    }
}
