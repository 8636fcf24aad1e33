//! What we say beside the data, on stderr.

use std::io::Write;

use crate::words::safe_text::{on_lines, on_one_line};

/// Something worth knowing. Lost without harm where stderr is closed.
pub fn note(text: &str) {
    writeln!(anstream::stderr(), "note: {}", on_one_line(text)).ok();
}

/// What just happened or can be done now, in as many lines as it takes.
pub fn say(text: &str) {
    writeln!(anstream::stderr(), "{}", on_lines(text)).ok();
}
