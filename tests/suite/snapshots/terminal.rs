//! A terminal of a given width, for a command's stdout.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Output, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// Runs a command to its end with a terminal of so many columns as its stdout. Its stderr is a pipe if the caller says so.
pub(super) fn output_on_terminal(mut command: Command, columns: u16) -> Output {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
    // What is written comes out as it was, without carriage returns.
    let mut attributes = tcgetattr(&terminal).unwrap();
    attributes.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&terminal, OptionalActions::Now, &attributes).unwrap();
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();

    let child = command.stdout(Stdio::from(terminal)).spawn().unwrap();
    // It holds the terminal, and the reader would wait for it.
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut master, mut text) = (File::from(master), Vec::new());
        // A terminal that nobody holds any more ends with an error.
        master.read_to_end(&mut text).ok();
        text
    });
    let output = child.wait_with_output().unwrap();
    Output { stdout: reader.join().unwrap(), ..output }
}
