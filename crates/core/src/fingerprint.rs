//! A short fingerprint of anything that is written out, the same on every machine and in every version (FNV-1a).
//!
//! For telling decisions, requests and settings apart; not for secrets, and not against anybody who wants two things to look alike.

use std::io::{self, Write};

/// What has been written so far, as one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// The fingerprint of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> u64 {
        let mut print = Self::default();
        print.update(bytes);
        print.0
    }

    /// The number.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }

    /// Takes more bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

/// Nothing is kept of what is written but its fingerprint, so that a serialiser can write into it.
impl Write for Fingerprint {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_function() {
        // Test vectors of the function's authors.
        assert_eq!(Fingerprint::of(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(Fingerprint::of(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Fingerprint::of(b"foobar"), 0x8594_4171_f739_67e8);
        let mut print = Fingerprint::default();
        write!(print, "foo").and_then(|()| write!(print, "bar")).expect("it takes anything");
        assert_eq!(print.value(), Fingerprint::of(b"foobar"));
    }
}
