//! Hashes against damage: every entry's hash covers all entries before it, and rows that stand alone carry a seal.
//!
//!   hash₀ = 0,  hashₙ = H(hashₙ₋₁ ‖ seq ‖ at ‖ digest ‖ entry ‖ by),  H = the first 16 bytes of SHA-256
//!
//! So an entry that was changed, left out or put elsewhere shows, whoever changed it. They are no signatures: who can write the file can write
//! them too.

use ring::digest::{Context, SHA256};

/// A hash, as it is stored.
pub(crate) type Hash = [u8; 16];

/// The hash before the first entry.
pub(crate) const START: Hash = [0; 16];

/// The hash of an entry that follows one with hash `before`.
pub(crate) fn link(before: &Hash, seq: u64, at: u64, digest: u64, entry: &str, by: Option<&str>) -> Hash {
    let mut sha = Context::new(&SHA256);
    sha.update(before);
    for number in [seq, at, digest, entry.len() as u64] {
        sha.update(&number.to_be_bytes());
    }
    sha.update(entry.as_bytes());
    // An entry of nobody and one of somebody without a name are two things.
    if let Some(by) = by {
        sha.update(&[1]);
        sha.update(by.as_bytes());
    }
    cut(sha)
}

/// The seal of a row: its table and its columns. Lengths are hashed too, so that no two rows run together to the same bytes.
pub(crate) fn seal(parts: &[&[u8]]) -> Hash {
    let mut sha = Context::new(&SHA256);
    for part in parts {
        sha.update(&(part.len() as u64).to_be_bytes());
        sha.update(part);
    }
    cut(sha)
}

fn cut(sha: Context) -> Hash {
    let mut hash = START;
    hash.copy_from_slice(&sha.finish().as_ref()[..START.len()]);
    hash
}

/// A hash as it was read; `None` for a column that is empty or no hash.
pub(crate) fn read(bytes: Option<&[u8]>) -> Option<Hash> {
    bytes.and_then(|bytes| bytes.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_an_entry_changes_its_hash() {
        let hash = link(&START, 1, 2, 3, "entry", Some("ada"));
        let others = [
            link(&[1; 16], 1, 2, 3, "entry", Some("ada")),
            link(&START, 2, 2, 3, "entry", Some("ada")),
            link(&START, 1, 1, 3, "entry", Some("ada")),
            link(&START, 1, 2, 4, "entry", Some("ada")),
            link(&START, 1, 2, 3, "entri", Some("ada")),
            link(&START, 1, 2, 3, "entry", Some("adb")),
            link(&START, 1, 2, 3, "entry", None),
            link(&START, 1, 2, 3, "entry", Some("")),
        ];
        assert!(others.iter().all(|other| *other != hash));
        assert_ne!(link(&START, 1, 2, 3, "entry", None), link(&START, 1, 2, 3, "entry", Some("")));
        assert_ne!(seal(&[b"ab", b"c"]), seal(&[b"a", b"bc"]));
    }
}
