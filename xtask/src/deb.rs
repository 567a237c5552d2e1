//! `cargo xtask deb`: a Debian package of the binary, its unit, manual, completions and settings.
//!
//! The tree of the package is made in `target/deb` and packed by `dpkg-deb`, which every Debian has. The same commit makes the same
//! package: files have the commit's time and belong to root.

use crate::cargo::{cargo, ends_well, root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const USAGE: &str = "cargo xtask deb";

/// Files that go in as they are: from the repository, to the package, and their mode.
const FILES: &[(&str, &str, u32)] = &[
    ("packaging/arles.service", "usr/lib/systemd/system/arles.service", 0o644),
    ("packaging/arles.sysusers", "usr/lib/sysusers.d/arles.conf", 0o644),
    ("packaging/arles.toml", "etc/arles/arles.toml", 0o644),
    ("packaging/local-engine.conf", "usr/share/doc/arles/examples/local-engine.conf", 0o644),
    ("docs/alerts.yml", "usr/share/doc/arles/examples/alerts.yml", 0o644),
    ("docs/grafana.json", "usr/share/doc/arles/examples/grafana.json", 0o644),
    ("docs/packaging.md", "usr/share/doc/arles/packaging.md", 0o644),
    ("docs/serve.md", "usr/share/doc/arles/serve.md", 0o644),
    ("docs/security.md", "usr/share/doc/arles/security.md", 0o644),
    ("LICENSE-APACHE", "usr/share/doc/arles/LICENSE-APACHE", 0o644),
    ("LICENSE-MIT", "usr/share/doc/arles/LICENSE-MIT", 0o644),
    ("packaging/debian/postinst", "DEBIAN/postinst", 0o755),
    ("packaging/debian/prerm", "DEBIAN/prerm", 0o755),
    ("packaging/debian/postrm", "DEBIAN/postrm", 0o755),
];

/// Shells, and where Debian keeps their completions.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/arles"),
    ("zsh", "usr/share/zsh/vendor-completions/_arles"),
    ("fish", "usr/share/fish/vendor_completions.d/arles.fish"),
];

const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: arles

Files: *
Copyright: the authors of arles
License: Apache-2.0 or Expat
 The texts are in /usr/share/doc/arles/LICENSE-APACHE and /usr/share/doc/arles/LICENSE-MIT.
";

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("'deb' takes no arguments, but was given '{unknown}'; usage: {USAGE}"));
    }
    ends_well(&mut cargo(&["build", "--release", "--workspace"]), "cargo build --release --workspace")?;
    let architecture = said(Command::new("dpkg").arg("--print-architecture"), "dpkg --print-architecture")?;
    let name = format!("arles_{}_{architecture}", env!("CARGO_PKG_VERSION"));
    let tree = root().join("target/deb").join(&name);
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(|e| format!("{} cannot be removed: {e}", tree.display()))?;
    }
    fill(&tree)?;
    control(&tree, &architecture)?;
    let package = tree.with_file_name(format!("{name}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package).env("SOURCE_DATE_EPOCH", committed());
    ends_well(&mut pack, "dpkg-deb --build")?;
    println!("{}", package.display());
    Ok(())
}

/// What a program prints.
fn said(command: &mut Command, line: &str) -> Result<String, String> {
    let output =
        command.output().map_err(|e| format!("{line} could not be run: {e}; this task needs Debian's dpkg"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("failed: {line}\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// When the last commit was made, in seconds since 1970; without git, the beginning of that time.
fn committed() -> String {
    let mut git = Command::new("git");
    said(git.args(["log", "-1", "--format=%ct"]).current_dir(root()), "git log").unwrap_or_else(|_| "0".into())
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("{} cannot be written: {e}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(cannot)?;
    }
    fs::write(path, bytes).map_err(cannot)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(cannot)
}

/// Everything that is installed.
fn fill(tree: &Path) -> Result<(), String> {
    let program = root().join("target/release/arles");
    for (from, to, mode) in FILES {
        let bytes = fs::read(root().join(from)).map_err(|e| format!("{from} cannot be read: {e}"))?;
        write(&tree.join(to), &bytes, *mode)?;
    }
    write(&tree.join("usr/share/doc/arles/copyright"), COPYRIGHT.as_bytes(), 0o644)?;
    let bytes = fs::read(&program).map_err(|e| format!("{} cannot be read: {e}", program.display()))?;
    let installed = tree.join("usr/bin/arles");
    write(&installed, &bytes, 0o755)?;
    // Names of functions are half of the file; who has no strip ships them.
    let _ = Command::new("strip").arg("--strip-unneeded").arg(&installed).status();
    for (shell, to) in SHELLS {
        let script = said(Command::new(&program).args(["completions", shell]), "arles completions")?;
        write(&tree.join(to), format!("{script}\n").as_bytes(), 0o644)?;
    }
    let manual = tree.join("usr/share/man/man1");
    said(Command::new(&program).arg("man").arg(&manual), "arles man")?;
    let pages = pages(&manual)?;
    said(Command::new("gzip").args(["-9", "-n"]).args(&pages), "gzip")?;
    let log = tree.join("usr/share/doc/arles/changelog");
    let text = fs::read(root().join("CHANGELOG.md")).map_err(|e| format!("CHANGELOG.md cannot be read: {e}"))?;
    write(&log, &text, 0o644)?;
    said(Command::new("gzip").args(["-9", "-n"]).arg(&log), "gzip").map(drop)
}

/// The pages in a folder, in order.
fn pages(manual: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |e: std::io::Error| format!("{} cannot be read: {e}", manual.display());
    let mut pages = Vec::new();
    for page in fs::read_dir(manual).map_err(cannot)? {
        let path = page.map_err(cannot)?.path();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).map_err(cannot)?;
        pages.push(path);
    }
    pages.sort();
    fs::set_permissions(manual, fs::Permissions::from_mode(0o755)).map_err(cannot)?;
    Ok(pages)
}

/// What dpkg is told about the package.
fn control(tree: &Path, architecture: &str) -> Result<(), String> {
    let program = tree.join("usr/bin/arles");
    let bytes = fs::read(&program).map_err(|e| format!("{} cannot be read: {e}", program.display()))?;
    let libc = newest_glibc(&bytes).map_or(String::new(), |minor| format!(" (>= 2.{minor})"));
    let text = format!(
        "Package: arles
Version: {}
Architecture: {architecture}
Maintainer: the authors of arles <arles@localhost>
Section: admin
Priority: optional
Installed-Size: {}
Depends: libc6{libc}, libgcc-s1, passwd
Description: scheduler for machine-learning jobs on mixed GPU clusters
 arles divides GPUs of different kinds among tenants, fairly and with an eye on
 energy. This package holds the daemon with its API and dashboard, the commands
 that talk to it, and the simulator.
",
        env!("CARGO_PKG_VERSION"),
        size(tree)? / 1024
    );
    write(&tree.join("DEBIAN/control"), text.as_bytes(), 0o644)?;
    write(&tree.join("DEBIAN/conffiles"), b"/etc/arles/arles.toml\n", 0o644)
}

/// The newest version 2.N of the C library that a binary names; its symbols carry them.
fn newest_glibc(bytes: &[u8]) -> Option<u32> {
    const MARK: &[u8] = b"GLIBC_2.";
    let after = |at: usize| {
        let digits: Vec<u8> = bytes[at + MARK.len()..].iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse().ok()
    };
    let found = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    found.filter_map(|(at, _)| after(at)).max()
}

/// Bytes in a folder.
fn size(folder: &Path) -> Result<u64, String> {
    let cannot = |e: std::io::Error| format!("{} cannot be read: {e}", folder.display());
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let meta = entry.metadata().map_err(cannot)?;
        sum += if meta.is_dir() { size(&entry.path())? } else { meta.len() };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_counts() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE"), Some(34));
        assert_eq!(newest_glibc(b"a static binary"), None);
        assert_eq!(newest_glibc(b"GLIBC_2."), None);
    }

    #[test]
    fn what_goes_in_is_there() {
        for (from, to, _) in FILES {
            assert!(root().join(from).is_file(), "{from} is missing");
            assert!(!to.starts_with('/'), "{to} is a path inside of the package");
        }
    }
}
