//! A bar on stderr for work that takes a while, where somebody sits in front of it.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Fewer things are done before a bar is seen.
const WORTH_A_BAR: usize = 50;

/// Goes away when it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// `what` is a verb: `reading`.
    pub(crate) fn of(n_steps: usize, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(
            Some(n_steps as u64),
            // Draws nothing where stderr is not a terminal.
            if n_steps < WORTH_A_BAR {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            },
        );
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}, {eta} left")
        {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self(bar.with_message(what))
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
