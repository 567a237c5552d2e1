//! Comments that say nothing: a documentation of one sentence that has no word but those of the item's own name and words
//! like "the", "its", "which".

use super::Found;
use super::source::{Line, lines};

/// Words that carry nothing by themselves.
const EMPTY: &[&str] = &[
    "a", "an", "the", "its", "it", "their", "them", "they", "this", "that", "these", "those", "one", "ones", "which",
    "whose", "what", "when", "where", "why", "how", "who", "is", "are", "of", "as", "and", "so", "here", "there",
    "all", "s",
];

pub(super) fn check(text: &str) -> Found {
    let lines = lines(text);
    let mut found = Found::new();
    let mut i = 0;
    while i < lines.len() {
        let from = i;
        while i < lines.len() && is_doc(&lines[i]) {
            i += 1;
        }
        if i == from {
            i += 1;
            continue;
        }
        let said: Vec<&str> = lines[from..i].iter().map(|line| line.comment.trim_start_matches('/').trim()).collect();
        let item =
            lines[i..].iter().map(|line| line.code.trim()).find(|code| !code.is_empty() && !code.starts_with("#["));
        let name = item.map(name).unwrap_or_default();
        if says_nothing(&said.join(" "), name) {
            let said = said.join(" ");
            found.push((
                from + 1,
                format!("'{said}' says nothing that '{name}' does not; say why, in which unit, or when"),
            ));
        }
    }
    found
}

fn is_doc(line: &Line) -> bool {
    line.code.trim().is_empty() && line.comment.starts_with("///")
}

/// The name of the item that a line of code begins.
fn name(code: &str) -> &str {
    const KEYWORDS: &[&str] = &[
        "pub", "crate", "super", "in", "const", "static", "fn", "async", "unsafe", "extern", "struct", "enum", "trait",
        "type", "mod", "use", "mut",
    ];
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .find(|word| !word.is_empty() && !KEYWORDS.contains(word))
        .unwrap_or("")
}

fn says_nothing(said: &str, name: &str) -> bool {
    // Code, figures and mathematics are something.
    if said.is_empty() || said.contains(|c: char| c.is_ascii_digit() || "`[]=<>|·×Σ".contains(c)) {
        return false;
    }
    let known: Vec<String> = words(name).iter().map(|word| stem(word)).collect();
    words(said).iter().all(|word| EMPTY.contains(&word.as_str()) || known.contains(&stem(word)))
}

/// The words of a sentence or of a name, `snake_case` or `CamelCase`, in small letters.
fn words(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut small = false;
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && small) {
            out.push(String::new());
        }
        small = c.is_lowercase();
        if c.is_alphanumeric() {
            out.last_mut().expect("never empty").extend(c.to_lowercase());
        }
    }
    out.retain(|word| !word.is_empty());
    out
}

/// One of several is the same word.
fn stem(word: &str) -> String {
    let word = word.strip_suffix("ies").map_or_else(|| word.to_owned(), |stem| format!("{stem}y"));
    word.strip_suffix('s').map_or(word.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_words_and_repeated_names_are_found() {
        let nothing = [
            ("Which.", "kind: KindId,"),
            ("Where.", "at: Place,"),
            ("The seed.", "pub seed: u64,"),
            ("All policies.", "pub const POLICIES: &[Policy] = &["),
            ("The job's id.", "pub struct JobId(u64);"),
            ("Its kind.", "#[serde(default)]\n    kind: String,"),
            ("Which one it is.", "fn f() {"),
        ];
        for (said, item) in nothing {
            let found = check(&format!("//! Head.\n\n    /// {said}\n    {item}\n"));
            assert_eq!(found.len(), 1, "{said} {item}");
            assert_eq!(found[0].0, 3);
        }
    }

    #[test]
    fn what_says_something_passes() {
        let something = [
            ("Why it failed.", "reason: String,"),
            ("From 0 on.", "index: usize,"),
            ("The seed that every draw follows from.", "pub seed: u64,"),
            ("`seed`.", "seed: u64,"),
            ("# Errors\n/// As [`open`].", "fn close() {}"),
            ("In seconds.", "grace: f64,"),
        ];
        for (said, item) in something {
            assert_eq!(check(&format!("/// {said}\n{item}\n")), [], "{said}");
        }
        assert_eq!(check("// Which.\nlet x = 3;\n"), []);
    }
}
