//! A bar on stderr for work that takes a while. Only a terminal shows it.

use std::time::Duration;

use admission::words::talk::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work needs no bar.
const TOO_SHORT: Duration = Duration::from_millis(300);

/// Draws nothing if stderr is not a terminal. Dropping it removes the bar.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `what` is a verb: `reading`.
    pub(crate) fn of(n_steps: usize, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(n_steps as u64), ProgressDrawTarget::hidden());
        // The template is constant and valid. If it were not, the bar would have its default look.
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}, {eta} left")
        {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self(bar.with_message(what))
    }

    pub(crate) fn step(&self) {
        self.appear();
        self.0.inc(1);
    }

    pub(crate) fn show(&self, n_done: usize, n_all: usize) {
        self.appear();
        self.0.set_length(n_all as u64);
        self.0.set_position(n_done as u64);
    }

    /// Changes the text in front of the bar.
    pub(crate) fn describe(&self, what: String) {
        self.0.set_message(what);
    }

    /// Prints a line above the bar.
    pub(crate) fn say_above(&self, text: &str) {
        self.0.suspend(|| say(text));
    }

    /// Removes the bar early.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }

    fn appear(&self) {
        if self.0.is_hidden() && self.0.elapsed() >= TOO_SHORT {
            self.0.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
