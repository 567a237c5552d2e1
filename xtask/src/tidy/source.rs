//! Rust source cut into code and comments, line by line: enough to count braces and to read comments, and no more. It knows
//! strings (plain, raw, of bytes), characters beside lifetimes, and nested comments.

/// One line of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    /// The code, with the insides of strings and characters left out.
    pub(super) code: String,
    /// The comment, from its first slash on.
    pub(super) comment: String,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    /// So many are open.
    BlockComment(usize),
    /// Ended by a quote and so many hashes; backslashes count where there are none and the string is not raw.
    Str {
        hashes: usize,
        raw: bool,
    },
}

pub(super) fn lines(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let (mut out, mut line, mut state, mut i) = (Vec::new(), Line::default(), State::Code, 0);
    while i < chars.len() {
        let (c, next) = (chars[i], chars.get(i + 1).copied().unwrap_or('\n'));
        if c == '\n' {
            out.push(std::mem::take(&mut line));
            state = if state == State::LineComment { State::Code } else { state };
            i += 1;
            continue;
        }
        i += match state {
            State::Code => code(&chars[i..], &mut line, &mut state),
            State::LineComment => {
                line.comment.push(c);
                1
            }
            State::BlockComment(depth) => {
                let (width, depth) = match (c, next) {
                    ('/', '*') => (2, depth + 1),
                    ('*', '/') => (2, depth - 1),
                    _ => (1, depth),
                };
                line.comment.extend(&chars[i..i + width]);
                state = if depth == 0 { State::Code } else { State::BlockComment(depth) };
                width
            }
            State::Str { raw: false, .. } if c == '\\' => {
                // An escaped line end still ends the line.
                if next == '\n' { 1 } else { 2 }
            }
            State::Str { hashes, .. } if c == '"' && closes(&chars[i + 1..], hashes) => {
                line.code.push('"');
                state = State::Code;
                1 + hashes
            }
            State::Str { .. } => 1,
        };
    }
    out.push(line);
    out
}

fn closes(rest: &[char], hashes: usize) -> bool {
    rest.len() >= hashes && rest[..hashes].iter().all(|&c| c == '#')
}

/// One step in code; how many characters it took.
fn code(rest: &[char], line: &mut Line, state: &mut State) -> usize {
    let at = |i: usize| rest.get(i).copied().unwrap_or('\n');
    match (at(0), at(1)) {
        ('/', '/') => {
            *state = State::LineComment;
            line.comment.push_str("//");
            return 2;
        }
        ('/', '*') => {
            *state = State::BlockComment(1);
            line.comment.push_str("/*");
            return 2;
        }
        ('"', _) => {
            line.code.push('"');
            *state = State::Str { hashes: 0, raw: false };
            return 1;
        }
        // A character, not a lifetime: it is closed after one character or an escape.
        ('\'', c) if c == '\\' || at(2) == '\'' => {
            let from = if c == '\\' { 3 } else { 2 };
            let width = (from..12).find(|&i| at(i) == '\'').map_or(1, |i| i + 1);
            line.code.push_str("' '");
            return width;
        }
        ('r', '"' | '#') if !line.code.ends_with(|c: char| c.is_alphanumeric() && c != 'b' || c == '_') => {
            let hashes = rest[1..].iter().take_while(|&&c| c == '#').count();
            if at(1 + hashes) == '"' {
                line.code.push_str("r\"");
                *state = State::Str { hashes, raw: true };
                return 2 + hashes;
            }
        }
        _ => {}
    }
    line.code.push(at(0));
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &[&str], comments: &[&str]) {
        let lines = lines(text);
        assert_eq!(lines.iter().map(|line| line.code.as_str()).collect::<Vec<_>>(), code, "code");
        assert_eq!(lines.iter().map(|line| line.comment.as_str()).collect::<Vec<_>>(), comments, "comments");
    }

    #[test]
    fn strings_are_left_out() {
        check(r#"a("{ \" // }", b"x")"#, &[r#"a("", b"")"#], &[""]);
        check("r#\"a\" }\"# ; br\"{\\\" x", &["r\"\" ; br\"\" x"], &[""]);
        check("\"a\\\n}\" b", &["\"", "\" b"], &["", ""]);
        check("var\"x\"", &["var\"\""], &[""]);
        check("r#type {", &["r#type {"], &[""]);
    }

    #[test]
    fn characters_are_left_out_and_lifetimes_kept() {
        check("'{' '\\'' '\\u{7d}' &'a str", &["' ' ' ' ' ' &'a str"], &[""]);
    }

    #[test]
    fn comments_are_kept_apart() {
        check("a // b }\nc", &["a ", "c"], &["// b }", ""]);
        check("a /* { /* } */\n{ */ b", &["a ", " b"], &["/* { /* } */", "{ */"]);
    }
}
