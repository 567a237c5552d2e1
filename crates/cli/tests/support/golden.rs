//! Texts that are kept in files. With `ARLES_BLESS=1` they are written anew; read the difference before you commit it.
//!
//! Not a snapshot library: the files are what users see, to the byte, without a header of somebody's own, and the pages of `docs/`
//! are kept and blessed in the same way.

use std::path::Path;

/// Compares a text with that of a file, or writes it anew: one of `tests/golden`, or by its path in the repository.
pub(crate) fn check(name: &str, text: &str) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = if name.contains('/') { own.join("../..").join(name) } else { own.join("tests/golden").join(name) };
    if std::env::var_os("ARLES_BLESS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if kept != text {
        let same = kept.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
        let from_there = |text: &str| text.lines().skip(same).take(20).collect::<Vec<_>>().join("\n");
        let (old, new, line) = (from_there(&kept), from_there(text), same + 1);
        panic!("{name} differs from line {line} on; ARLES_BLESS=1 writes it anew\n--- kept\n{old}\n--- now\n{new}");
    }
}
