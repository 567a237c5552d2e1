//! Names that people give: of tenants, jobs, workloads, kinds, nodes and tokens. One rule for all of them.
//!
//! A name is shown on terminals, in tables, in a browser and in logs, beside names of others. So what a reader cannot see for what it
//! is has no place in one: control characters move a cursor, characters of direction (bidi) turn the rest of a line around, and
//! those without width make two names look the same. Letters of every script are welcome.
//!
//! [`check`] is for what comes in; [`harmless`] is for what is shown, since older journals may hold names that would be refused today.

use std::borrow::Cow;

/// What a hidden character is shown as.
pub const REPLACEMENT: char = '\u{fffd}';

/// Whether a reader would not see this character for what it is: it controls, turns the direction of text, or has no width.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Soft hyphen, Arabic letter mark, Mongolian vowel separator, fillers that look like a space or like nothing.
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{ffa0}'
            // Without width, and marks of direction; line and paragraph separators; embeddings and overrides.
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates, deprecated format characters.
            | '\u{2060}'..='\u{206f}'
            // Byte order mark, interlinear annotations, not characters at all.
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            // Musical format characters, tags.
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A name without spaces around it, if it is one of 1 to `most` characters that can be seen; else what is wrong with it, as the end of a
/// sentence that begins with the name.
///
/// # Errors
/// When the name is empty, too long or holds a hidden character.
pub fn check(name: &str, most: usize) -> Result<&str, String> {
    let bare = name.trim();
    let length = bare.chars().count();
    if length == 0 {
        return Err(format!("is empty; expected 1 to {most} printable characters"));
    }
    if length > most {
        return Err(format!("has {length} characters; expected at most {most}"));
    }
    match bare.chars().position(is_hidden) {
        Some(at) => {
            let code = bare.chars().nth(at).map_or(0, u32::from);
            Err(format!(
                "has a control or invisible character (U+{code:04X}) at position {}; use printable ones only",
                at + 1
            ))
        }
        None => Ok(bare),
    }
}

/// The text with every hidden character replaced: what may be shown on a terminal or a page.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    match text.contains(is_hidden) {
        true => Cow::Owned(text.chars().map(|c| if is_hidden(c) { REPLACEMENT } else { c }).collect()),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_script_are_names() {
        for name in ["vision", "a b", "été", "名前", "עברית", "job-1_2.3", "100 %", "=1+1"] {
            assert_eq!(check(name, 20), Ok(name));
        }
        assert_eq!(check("  two words ", 20), Ok("two words"));
    }

    #[test]
    fn what_cannot_be_seen_is_refused_and_shown_as_such() {
        let hidden = [
            '\0',
            '\n',
            '\t',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{200b}',
            '\u{200f}',
            '\u{202e}',
            '\u{2066}',
            '\u{feff}',
            '\u{e0041}',
        ];
        for c in hidden {
            let name = format!("a{c}b");
            let wrong = check(&name, 20).expect_err("hidden");
            assert!(wrong.contains(&format!("(U+{:04X}) at position 2", u32::from(c))), "{wrong}");
            assert_eq!(harmless(&name), "a\u{fffd}b");
        }
        assert!(check(" ", 20).is_err() && check("", 20).is_err());
        assert_eq!(check("abc", 2), Err("has 3 characters; expected at most 2".into()));
    }
}
