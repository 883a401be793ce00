//! A terminal for the program.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Returns what a terminal of 100 columns shows, and its end for the program.
pub(crate) fn terminal() -> (File, OwnedFd) {
    // It must not become the terminal that controls the tests.
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let size = Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).unwrap();
    let path = ptsname(&screen, Vec::new()).unwrap();
    let end = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(screen), end)
}
