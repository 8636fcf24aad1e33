//! A terminal with a given width for a command's stdout.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// Marks the end of the output. No command prints it.
const END: &[u8] = b"\x04end of output\x04";

/// Runs a command until it ends, with a terminal of this width as its stdout. Its stderr is a pipe if the caller sets
/// one.
pub(super) fn output_on_terminal(mut command: Command, columns: u16) -> Output {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
    // Output arrives unchanged, without carriage returns.
    let mut attributes = tcgetattr(&terminal).unwrap();
    attributes.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&terminal, OptionalActions::Now, &attributes).unwrap();
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();

    let own_end = File::from(terminal.try_clone().unwrap());
    let child = command.stdout(Stdio::from(terminal)).spawn().unwrap();
    drop(command);
    // The reader stops at a mark, not when the terminal closes, because the kernel may close it before the reader has
    // read everything.
    let reader = std::thread::spawn(move || {
        let (mut master, mut text) = (File::from(master), Vec::new());
        let mut piece = [0; 4096];
        while !text.ends_with(END) {
            let length = master.read(&mut piece).unwrap();
            text.extend_from_slice(&piece[..length]);
        }
        text.truncate(text.len() - END.len());
        text
    });
    let output = child.wait_with_output().unwrap();
    (&own_end).write_all(END).unwrap();
    Output { stdout: reader.join().unwrap(), ..output }
}
