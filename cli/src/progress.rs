//! Progress of long commands on standard error, if it is a terminal: amount, rate and time left.

use crate::args::Global;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar, removed from the terminal when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Shows progress of `what` in bytes. Hidden with `--quiet`, and if standard error is not a
    /// terminal.
    pub fn bytes(global: &Global, what: &'static str) -> Progress {
        let counts = "{decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}";
        Progress::new(global, what, counts)
    }

    /// Shows progress of `what` in sequences, like [`Progress::bytes`].
    pub fn sequences(global: &Global, what: &'static str) -> Progress {
        Progress::new(global, what, "{human_pos}/{human_len} sequences, {per_sec}")
    }

    fn new(global: &Global, what: &'static str, counts: &str) -> Progress {
        let target = match global.quiet {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(None, target).with_message(what);
        let template = format!("{{msg}} {{wide_bar}} {counts} {{eta}} left");
        Progress(bar.with_style(
            ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        ))
    }

    /// Shows an activity without a known size, and replaces the one before.
    pub fn activity(global: &Global) -> Progress {
        let progress = Progress::new(global, "", "");
        progress.0.set_style(
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        progress
    }

    /// Names the current activity.
    pub fn say(&self, activity: String) {
        self.0.set_message(activity);
        self.0.tick();
    }

    /// Updates the bar: `done` of `total` bytes or sequences. Without a total, as of speech and
    /// images, nothing is shown.
    pub fn set(&self, done: u64, total: u64) {
        if total == 0 {
            return;
        }
        self.0.set_length(total);
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
