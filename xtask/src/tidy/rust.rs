//! Rules for Rust files: how long they and their functions are, what they and their types are called, what may not be left in
//! them.

use super::Found;
use super::source::{Line, lines};

/// A file has fewer lines than this.
const FILE_LINES: usize = 800;
/// A function has fewer lines than this, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;
/// Endings of types' names that say nothing.
const SUFFIXES: &[&str] = &["Manager", "Info", "Data", "Helper", "Helpers", "Util", "Utils", "Handler", "Context"];
const FILE_NAMES: &[&str] = &["util.rs", "utils.rs", "helper.rs", "helpers.rs", "misc.rs", "common.rs"];

pub(super) fn check(path: &str, text: &str) -> Found {
    let lines = lines(text);
    let mut found = Found::new();
    let name = path.rsplit('/').next().unwrap_or(path);
    let in_src = path.contains("/src/");
    let length = text.lines().count();
    if length >= FILE_LINES {
        found.push((1, format!("{length} lines; a file has fewer than {FILE_LINES}: cut it in two")));
    }
    if in_src && name == "mod.rs" {
        found.push((1, "a module is NAME.rs beside NAME/; move this mod.rs there".to_owned()));
    }
    if in_src && FILE_NAMES.contains(&name) {
        found.push((1, format!("'{name}' says nothing; name the file by what is in it")));
    }
    if in_src && !text.trim_start().starts_with("//!") {
        found.push((1, "no module head; say in //! what the module is for and what it must never do".to_owned()));
    }
    found.extend(functions(&lines));
    found.extend(types(&lines));
    found.extend(leftovers(&lines));
    found
}

/// Functions that are too long.
fn functions(lines: &[Line]) -> Found {
    // A function ends with the brace that closes its body; one that has no body ends with a semicolon.
    let mut found = Found::new();
    for (start, line) in lines.iter().enumerate() {
        let Some((column, name)) = function(&line.code) else { continue };
        let (mut braces, mut others, mut end) = (0_usize, 0_usize, None);
        'body: for (number, line) in lines.iter().enumerate().skip(start) {
            let from = if number == start { column } else { 0 };
            for c in line.code[from..].chars() {
                match c {
                    '(' | '[' => others += 1,
                    ')' | ']' => others = others.saturating_sub(1),
                    '{' => braces += 1,
                    '}' => braces = braces.saturating_sub(1),
                    _ => {}
                }
                if c == '}' && braces == 0 {
                    end = Some(number);
                    break 'body;
                }
                if c == ';' && braces == 0 && others == 0 {
                    break 'body;
                }
            }
        }
        let length = end.map_or(0, |end| end - start + 1);
        if length >= FUNCTION_LINES {
            let what = format!("fn {name} has {length} lines; a function has fewer than {FUNCTION_LINES}: cut it");
            found.push((start + 1, what));
        }
    }
    found
}

/// Where `fn NAME` is on a line.
fn function(code: &str) -> Option<(usize, &str)> {
    let at = code.match_indices("fn ").find(|(at, _)| !code[..*at].ends_with(is_word))?.0;
    let name = code[at + 3..].split(|c| !is_word(c)).next().filter(|name| !name.is_empty())?;
    Some((at, name))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Types whose names end in a word that says nothing.
fn types(lines: &[Line]) -> Found {
    let mut found = Found::new();
    for (number, line) in (1..).zip(lines) {
        let words: Vec<&str> = line.code.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            // An indented `type` is the associated type of somebody's trait, which names it.
            let declares = matches!(pair[0], "struct" | "enum" | "trait" | "union")
                || pair[0] == "type" && !line.code.starts_with(' ');
            let Some(suffix) = SUFFIXES.iter().find(|suffix| pair[1].ends_with(*suffix)) else { continue };
            if declares {
                let name = pair[1];
                found.push((number, format!("{name}: '{suffix}' says nothing; name the type by what it is")));
            }
        }
    }
    found
}

/// Macros of unfinished work, and lints switched off without a reason.
fn leftovers(lines: &[Line]) -> Found {
    let mut found = Found::new();
    for (i, line) in lines.iter().enumerate() {
        if line.code.contains("dbg!(") {
            found.push((i + 1, "dbg! is left behind; take it out".to_owned()));
        }
        let allows = line.code.contains("#[allow(") || line.code.contains("#![allow(");
        let above = i.checked_sub(1).map(|above| &lines[above]);
        let reason = |line: &Line| !line.comment.is_empty() && !line.comment.starts_with("//!");
        if allows && !line.code.contains("reason") && !reason(line) && !above.is_some_and(reason) {
            found.push((i + 1, "a lint is allowed without a reason; say why on the line above".to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<String> {
        check(path, text).into_iter().map(|(line, what)| format!("{line}: {what}")).collect()
    }

    #[track_caller]
    fn finds(path: &str, text: &str, part: &str) {
        let whats = whats(path, text);
        assert!(whats.len() == 1 && whats[0].contains(part), "{whats:?}");
    }

    #[track_caller]
    fn passes(path: &str, text: &str) {
        assert_eq!(whats(path, text), [""; 0]);
    }

    const HEAD: &str = "//! For tests.\n";

    #[test]
    fn long_files() {
        finds("a/src/x.rs", &(HEAD.to_owned() + &"\n".repeat(799)), "1: 800 lines");
        passes("a/src/x.rs", &(HEAD.to_owned() + &"\n".repeat(798)));
    }

    #[test]
    fn long_functions() {
        let body = |lines: usize| format!("{HEAD}fn f(x: [u8; 2]) {{\n{}}}\n", "    g(\"}\"); // }\n".repeat(lines));
        finds("a/src/x.rs", &body(68), "2: fn f has 70 lines");
        passes("a/src/x.rs", &body(67));
        passes("a/src/x.rs", &format!("{HEAD}trait T {{\n    fn f(&self);\n{}}}\n", "    const A: u8;\n".repeat(90)));
    }

    #[test]
    fn names_of_files() {
        finds("a/src/x/mod.rs", HEAD, "NAME.rs beside NAME/");
        passes("a/tests/x/mod.rs", HEAD);
        finds("a/src/utils.rs", HEAD, "'utils.rs' says nothing");
    }

    #[test]
    fn heads() {
        finds("a/src/x.rs", "use a;\n", "no module head");
        passes("a/tests/x.rs", "use a;\n");
    }

    #[test]
    fn names_of_types() {
        finds("a/src/x.rs", &format!("{HEAD}pub struct JobManager;\n"), "JobManager: 'Manager' says nothing");
        finds("a/src/x.rs", &format!("{HEAD}type NodeInfo<T> = T;\n"), "NodeInfo");
        passes(
            "a/src/x.rs",
            &format!("{HEAD}struct Information;\n// struct JobManager\n    type Data = u8;\nlet x: TaskContext = y;\n"),
        );
    }

    #[test]
    fn leftovers_and_lints() {
        finds("a/src/x.rs", &format!("{HEAD}    {}!(x);\n", "dbg"), "left behind");
        finds("a/src/x.rs", &format!("{HEAD}#[allow(dead_code)]\nfn f() {{}}\n"), "without a reason");
        passes("a/src/x.rs", &format!("{HEAD}// The bench needs it.\n#[allow(dead_code)]\nfn f() {{}}\n"));
    }
}
