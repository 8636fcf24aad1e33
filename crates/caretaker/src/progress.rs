//! How far long work has come, for a person who waits.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the terminal of stderr; nothing at all where there is none. It is gone when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

/// What is shorter needs no bar.
const TOO_SHORT: Duration = Duration::from_millis(300);

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::no_length().with_message(what);
        // The template is our own, and sound; without it the bar has its default look.
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    pub(crate) fn show(&mut self, n_done: usize, n_all: usize) {
        if self.bar.elapsed() >= TOO_SHORT {
            self.bar.set_length(n_all as u64);
            self.bar.set_position(n_done as u64);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
