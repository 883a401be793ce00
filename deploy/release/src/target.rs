//! The platforms of releases.

/// A platform that a release is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Target {
    /// 64-bit x86.
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl Target {
    /// Returns its name in images.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns its name in Rust. With musl, the program is linked statically.
    pub fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-musl",
            Self::Arm64 => "aarch64-unknown-linux-musl",
        }
    }

    /// Returns the C compiler, and the Debian package that contains it.
    pub fn compiler(self) -> (&'static str, &'static str) {
        match self {
            Self::Amd64 => ("musl-gcc", "musl-tools"),
            Self::Arm64 => ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
        }
    }

    /// Returns the directory of musl's headers, and the Debian package that contains it. `None` if the compiler finds them.
    ///
    /// With the headers of glibc, the allocator would compile, but use functions as they are in glibc: `strerror_r` returns
    /// an address there, and a number in musl.
    pub fn headers(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Amd64 => None,
            Self::Arm64 => Some(("/usr/include/aarch64-linux-musl", "musl-dev:arm64")),
        }
    }
}
