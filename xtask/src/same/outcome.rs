//! Running a command in a folder, what it left behind, and whether two of those are the same.

use super::{Compare, inputs, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A binary and the folder it runs in.
pub(super) struct Binary {
    program: PathBuf,
    pub(super) folder: PathBuf,
    shared: String,
}

/// What a command left behind, with everything that may differ by rule made equal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Outcome {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Files that are new or were changed.
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

impl Binary {
    /// Makes the folder anew, with the files that every folder begins with.
    pub(super) fn new(program: &Path, folder: &Path, shared: Option<&Path>) -> Result<Binary, String> {
        let failed = |e: std::io::Error| format!("cannot make the folder {}: {e}", folder.display());
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(failed)?;
        }
        std::fs::create_dir_all(folder).map_err(failed)?;
        for (name, content) in inputs::FILES {
            std::fs::write(folder.join(name), content).map_err(failed)?;
        }
        let folder = folder.canonicalize().map_err(failed)?;
        let shared = shared.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Binary { program: program.to_path_buf(), folder, shared })
    }

    /// `arles LINE`, ready to run. Nothing of the caller's environment that arles reads is passed on.
    pub(super) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        let ours =
            std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("ARLES_"));
        ours.for_each(|name| {
            command.env_remove(name);
        });
        command.args(words(&line.replace("{shared}", &self.shared))).current_dir(&self.folder);
        command.env("COLUMNS", "80").env("XDG_DATA_HOME", self.folder.join("xdg")).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(super) fn run(&self, line: &str) -> Result<Outcome, String> {
        let before = self.files()?;
        let ran = self.command(line).output().map_err(|e| format!("cannot run {}: {e}", self.program.display()))?;
        let mut files = self.files()?;
        files.retain(|name, content| before.get(name) != Some(content));
        let files = files.into_iter().map(|(name, content)| (name, self.equal(&content))).collect();
        Ok(Outcome { code: ran.status.code(), stdout: self.equal(&ran.stdout), stderr: self.equal(&ran.stderr), files })
    }

    /// The files of the folder; not those of SQLite, nor what is below a folder: a daemon's state is in one.
    fn files(&self) -> Result<BTreeMap<String, Vec<u8>>, String> {
        let failed = |e: std::io::Error| format!("cannot read {}: {e}", self.folder.display());
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().map_err(failed)?.is_file() && !name.contains(".sqlite") {
                files.insert(name, std::fs::read(entry.path()).map_err(failed)?);
            }
        }
        Ok(files)
    }

    /// The same bytes with what may differ by rule made equal.
    pub(super) fn equal(&self, bytes: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
        let text = text.replace(&*self.folder.to_string_lossy(), "FOLDER");
        without_wall(&text).into_bytes()
    }
}

/// Words of a command line; single quotes keep words together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    for (i, part) in line.split('\'').enumerate() {
        if i % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// JSON with every `"wall_seconds": NUMBER` as `"wall_seconds": 0`.
fn without_wall(text: &str) -> String {
    let key = "\"wall_seconds\":";
    let mut parts = text.split(key);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || "+-.eE".contains(c));
        out.extend([key, " 0", rest]);
    }
    out
}

/// Both at a time.
pub(super) fn both<T: Send>(one: &Binary, two: &Binary, run: impl Fn(&Binary) -> T + Sync) -> (T, T) {
    std::thread::scope(|scope| {
        let first = scope.spawn(|| run(one));
        let second = run(two);
        (first.join().expect("no command panics in here"), second)
    })
}

/// The first difference between two outcomes, if there is one.
pub(super) fn difference(one: &Outcome, two: &Outcome, compare: Compare) -> Option<String> {
    if one.code != two.code {
        let name = |code: Option<i32>| code.map_or("by a signal".to_owned(), |code| code.to_string());
        let why = first_line(&two.stderr);
        return Some(format!("exit code {} became {} ({why})", name(one.code), name(two.code)));
    }
    match compare {
        Compare::Shape => return shapes(&one.stdout, &two.stdout),
        Compare::Header => {
            return texts("stdout", first_line(&one.stdout).as_bytes(), first_line(&two.stdout).as_bytes());
        }
        Compare::Exact => {}
    }
    if let Some(difference) =
        texts("stdout", &one.stdout, &two.stdout).or_else(|| texts("stderr", &one.stderr, &two.stderr))
    {
        return Some(difference);
    }
    let names: std::collections::BTreeSet<&String> = one.files.keys().chain(two.files.keys()).collect();
    names.into_iter().find_map(|name| match (one.files.get(name), two.files.get(name)) {
        (Some(one), Some(two)) => texts(name, one, two),
        (Some(_), None) => Some(format!("{name} is not written any more")),
        _ => Some(format!("{name} is written now")),
    })
}

fn first_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned()
}

fn shapes(one: &[u8], two: &[u8]) -> Option<String> {
    let read = |bytes: &[u8]| json::shape(&String::from_utf8_lossy(bytes));
    match (read(one), read(two)) {
        (Ok(one), Ok(two)) => json::difference(&one, &two, ""),
        // What is no JSON on both sides must be the same text.
        (Err(_), Err(_)) => texts("stdout", one, two),
        (_, Err(why)) => Some(format!("stdout is no JSON any more: {why}")),
        (Err(_), _) => Some("stdout is JSON now".to_owned()),
    }
}

/// The first line that differs, with its number and what is in both.
fn texts(what: &str, one: &[u8], two: &[u8]) -> Option<String> {
    if one == two {
        return None;
    }
    let (one, two) = (String::from_utf8_lossy(one), String::from_utf8_lossy(two));
    let (mut ones, mut twos, mut number) = (one.lines(), two.lines(), 0);
    loop {
        number += 1;
        let (one, two) = (ones.next(), twos.next());
        if one != two {
            let (one, two) = around(one.unwrap_or("(no such line)"), two.unwrap_or("(no such line)"));
            return Some(format!("{what}, line {number}: '{one}' became '{two}'"));
        }
        if one.is_none() {
            return Some(format!("{what} ends its lines in another way"));
        }
    }
}

/// Two lines, cut to a window around their first difference.
fn around(one: &str, two: &str) -> (String, String) {
    let same = one.chars().zip(two.chars()).take_while(|(a, b)| a == b).count();
    let from = if one.chars().count().max(two.chars().count()) > 100 { same.saturating_sub(40) } else { 0 };
    let cut = |line: &str| line.chars().skip(from).take(100).collect();
    (cut(one), cut(two))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stdout: &str) -> Outcome {
        Outcome { code: Some(0), stdout: stdout.into(), ..Outcome::default() }
    }

    #[test]
    fn the_first_difference_is_told() {
        let check = |one: &str, two: &str| difference(&said(one), &said(two), Compare::Exact);
        assert_eq!(check("a\nb\n", "a\nb\n"), None);
        assert_eq!(check("a\nb\n", "a\nc\n").unwrap(), "stdout, line 2: 'b' became 'c'");
        assert_eq!(check("a\n", "a\nb\n").unwrap(), "stdout, line 2: '(no such line)' became 'b'");
        assert_eq!(check("a\n", "a").unwrap(), "stdout ends its lines in another way");
    }

    #[test]
    fn codes_and_files_count() {
        let failed = Outcome { code: Some(2), ..said("") };
        assert!(difference(&said(""), &failed, Compare::Exact).unwrap().contains("exit code 0 became 2"));
        let wrote = Outcome { files: [("a.csv".to_owned(), b"1".to_vec())].into(), ..said("") };
        assert_eq!(difference(&wrote, &said(""), Compare::Exact).unwrap(), "a.csv is not written any more");
    }

    #[test]
    fn shapes_and_headers_ignore_values() {
        assert_eq!(difference(&said("{\"a\": 1}"), &said("{\"a\": 2}"), Compare::Shape), None);
        assert!(difference(&said("{\"a\": 1}"), &said("{}"), Compare::Shape).is_some());
        assert_eq!(difference(&said("a,b\n1,2\n"), &said("a,b\n3,4\n"), Compare::Header), None);
        assert!(difference(&said("a,b\n1,2\n"), &said("a,c\n1,2\n"), Compare::Header).is_some());
    }

    #[test]
    fn cpu_time_is_made_equal_and_quotes_keep_words() {
        assert_eq!(without_wall("{\"wall_seconds\": 1.5e-3, \"a\": 2}"), "{\"wall_seconds\": 0, \"a\": 2}");
        assert_eq!(words("a 'b c' --d"), ["a", "b c", "--d"]);
    }
}
