//! The supported platforms, with their names in each package manager.
//!
//! The table is complete although one run builds for one platform: the npm launcher names all platform packages.

use anyhow::{Context as _, Result};

/// A platform, with its names in package managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Platform {
    /// Rust's operating system and architecture.
    os: &'static str,
    arch: &'static str,
    /// The target triple, in names of archives.
    pub(super) triple: &'static str,
    /// `process.platform` and `process.arch` of Node.js.
    pub(super) node: (&'static str, &'static str),
    /// The platform tag of wheels; for Linux, what follows the version of glibc.
    wheel: &'static str,
    /// The architecture of Debian packages.
    pub(super) debian: Option<&'static str>,
}

/// Every platform.
pub(super) const PLATFORMS: &[Platform] = &[
    Platform {
        os: "linux",
        arch: "x86_64",
        triple: "x86_64-unknown-linux-gnu",
        node: ("linux", "x64"),
        wheel: "x86_64",
        debian: Some("amd64"),
    },
    Platform {
        os: "linux",
        arch: "aarch64",
        triple: "aarch64-unknown-linux-gnu",
        node: ("linux", "arm64"),
        wheel: "aarch64",
        debian: Some("arm64"),
    },
    Platform {
        os: "macos",
        arch: "x86_64",
        triple: "x86_64-apple-darwin",
        node: ("darwin", "x64"),
        wheel: "macosx_11_0_x86_64",
        debian: None,
    },
    Platform {
        os: "macos",
        arch: "aarch64",
        triple: "aarch64-apple-darwin",
        node: ("darwin", "arm64"),
        wheel: "macosx_11_0_arm64",
        debian: None,
    },
    Platform {
        os: "windows",
        arch: "x86_64",
        triple: "x86_64-pc-windows-msvc",
        node: ("win32", "x64"),
        wheel: "win_amd64",
        debian: None,
    },
];

impl Platform {
    /// Returns the platform that this tool runs on.
    ///
    /// # Errors
    ///
    /// Fails on platforms that no package exists for.
    pub(super) fn here() -> Result<Self> {
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        let found = PLATFORMS.iter().find(|platform| platform.os == os && platform.arch == arch);
        found.copied().with_context(|| {
            format!("no package is laid out for {os} on {arch}: add it to xtask/src/dist/platform.rs")
        })
    }

    /// Returns the file name of the binary.
    pub(super) fn binary(self) -> &'static str {
        if self.os == "windows" { "aqueduct.exe" } else { "aqueduct" }
    }

    /// Returns the architecture of container images: Debian's names are those of the OCI specification.
    pub(super) fn container(self) -> Option<&'static str> {
        self.debian
    }

    /// Returns the platform tag of a wheel with this binary: on Linux with the oldest glibc that has all its symbols.
    ///
    /// # Errors
    ///
    /// Fails if a binary for Linux names no version of glibc.
    pub(super) fn wheel_tag(self, binary: &[u8]) -> Result<String> {
        if self.os != "linux" {
            return Ok(self.wheel.to_owned());
        }
        let (major, minor) = newest_glibc(binary).context("the binary names no version of glibc")?;
        Ok(format!("manylinux_{major}_{minor}_{}", self.wheel))
    }
}

/// Returns the newest version of glibc among the symbol versions that a binary names.
pub(super) fn newest_glibc(binary: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let starts = binary.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let versions = starts.filter_map(|(at, _)| {
        let rest = binary.get(at + MARK.len()..)?;
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let text = std::str::from_utf8(rest.get(..length)?).ok()?;
        let mut numbers = text.split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_asks_for_the_newest_symbol_version_of_the_binary() {
        let binary = b"..GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0GLIBC_".as_slice();
        assert_eq!(newest_glibc(binary), Some((2, 34)));
        assert_eq!(newest_glibc(b"static"), None);
        let linux = PLATFORMS.first().unwrap();
        assert_eq!(linux.wheel_tag(binary).unwrap(), "manylinux_2_34_x86_64");
        assert!(linux.wheel_tag(b"static").is_err());
    }

    #[test]
    fn platforms_differ_in_every_name() {
        for names in [
            PLATFORMS.iter().map(|platform| platform.triple).collect::<Vec<_>>(),
            PLATFORMS.iter().map(|platform| platform.wheel).collect(),
        ] {
            let mut unique = names.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), names.len());
        }
    }
}
