//! Helpers for many attempts.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use nix::errno::Errno;

use crate::attempt::Answer;

/// The text that attempts write.
pub(crate) const EVIL: &str = "EVIL\n";

/// The answer if an attempt finds nothing that it looked for.
pub(crate) const NOTHING: &str = "nothing";

/// The name of an error, such as `EPERM`.
pub(crate) fn name_of(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("{:?}", Errno::from_raw(number)),
        None => error.to_string(),
    }
}

/// The answer for a result: done, or refused with the error's name.
pub(crate) fn outcome<T>(result: io::Result<T>, done: &str) -> Answer {
    match result {
        Ok(_) => Answer::done(done),
        Err(error) => Answer::refused(name_of(&error)),
    }
}

pub(crate) fn called<T>(result: Result<T, Errno>, done: &str) -> Answer {
    match result {
        Ok(_) => Answer::done(done),
        Err(errno) => Answer::refused(format!("{errno:?}")),
    }
}

/// Tries to read a file.
pub(crate) fn read(path: &Path) -> Answer {
    outcome(fs::read(path), "it was read")
}

/// Tries to find the secret in a file.
pub(crate) fn reveals(path: &Path, secret: &str) -> Answer {
    match fs::read(path) {
        Ok(bytes) if contains(&bytes, secret) => Answer::done("it was read"),
        Ok(_) => Answer::refused(NOTHING),
        Err(error) => Answer::refused(name_of(&error)),
    }
}

pub(crate) fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Writes into a file, and creates it if necessary.
pub(crate) fn write(path: &Path) -> Answer {
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(EVIL.as_bytes()));
    outcome(written, "it was written")
}

/// Tries to rename a file or directory.
pub(crate) fn rename(from: &Path, to: &Path) -> Answer {
    outcome(fs::rename(from, to), "it was moved")
}

/// Writes the file with which the attempt replaces another one.
pub(crate) fn own_file(path: &Path) -> io::Result<()> {
    fs::write(path, EVIL)
}

/// Renames the attempt's own file over another file.
pub(crate) fn rename_over(own: &Path, target: &Path) -> Answer {
    if let Err(error) = own_file(own) {
        return Answer::NotHere(format!("could not write the file: {error}"));
    }
    rename(own, target)
}

/// The first answer that shows success, or else the last.
pub(crate) fn first_done(answers: impl IntoIterator<Item = Answer>) -> Answer {
    let mut last = Answer::refused(NOTHING);
    for answer in answers {
        if matches!(answer, Answer::Done(_)) {
            return answer;
        }
        last = answer;
    }
    last
}
