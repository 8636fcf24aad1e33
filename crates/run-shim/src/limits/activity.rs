//! Measures a sandbox's processor time since the last check.
//!
//! A group that used no processor time wrote nothing. So for a silent agent, reading one small kernel file replaces
//! walks through directories.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Long enough for the first number in the file, which is the total.
const BEGINNING: usize = 64;
/// A sandbox in which nothing ran for this long is expected to stay silent.
const SILENT: Duration = Duration::from_secs(60);
/// The pause between two checks of a silent sandbox. With it, even hundreds of sandboxes on a machine cost next to
/// nothing.
const SILENT_PAUSE: Duration = Duration::from_secs(4);

/// A group's processor time, now and at the beginning of the last check.
#[derive(Debug)]
pub(super) struct Activity {
    /// `None` if the kernel does not count it. Then the sandbox may have run all the time.
    account: Option<File>,
    now: Option<Duration>,
    looked_at: Option<Duration>,
    /// When a check last saw the processor time grow.
    grew: Instant,
}

impl Activity {
    /// Before the first check, all time is unseen.
    pub(super) fn of(account: Option<&Path>) -> Self {
        let account = account.and_then(|path| File::open(path).ok());
        Self { account, now: None, looked_at: None, grew: Instant::now() }
    }

    /// The processor time since the last check began. `MAX` if it is unknown.
    pub(super) fn unseen(&mut self) -> Duration {
        let now = self.account.as_ref().and_then(|account| {
            let mut text = [0; BEGINNING];
            let length = account.read_at(&mut text, 0).ok()?;
            usage(std::str::from_utf8(&text[..length]).ok()?)
        });
        if now.is_none() || now != self.now {
            self.grew = Instant::now();
        }
        self.now = now;
        match (self.now, self.looked_at) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            _ => Duration::MAX,
        }
    }

    /// The pause until the next check: the usual pause, or a longer one if nothing has run for a minute.
    pub(super) fn pause(&self, usual: Duration) -> Duration {
        match self.grew.elapsed() < SILENT {
            true => usual,
            false => usual.max(SILENT_PAUSE),
        }
    }

    /// Records that a check begins. Time after the last call to [`Activity::unseen`] stays unseen.
    pub(super) fn look_begins(&mut self) {
        self.looked_at = self.now;
    }
}

/// Version 1's `cpuacct.usage` has nanoseconds. Version 2's `cpu.stat` begins with a name and microseconds.
fn usage(text: &str) -> Option<Duration> {
    let first = text.lines().next()?;
    match first.strip_prefix("usage_usec ") {
        Some(microseconds) => microseconds.trim().parse().ok().map(Duration::from_micros),
        None => first.trim().parse().ok().map(Duration::from_nanos),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn processor_time_is_unseen_until_a_check_and_always_without_an_account() {
        let directory = tempfile::tempdir().unwrap();
        let account = directory.path().join("cpuacct.usage");
        std::fs::write(&account, "1000\n").unwrap();
        let mut activity = Activity::of(Some(&account));
        assert_eq!(activity.unseen(), Duration::MAX, "there was no check yet");
        activity.look_begins();
        assert_eq!(activity.unseen(), Duration::ZERO);
        std::fs::write(&account, "1500\n").unwrap();
        assert_eq!(activity.unseen(), Duration::from_nanos(500));
        assert_eq!(activity.unseen(), Duration::from_nanos(500), "there was no check in between");
        activity.look_begins();
        assert_eq!(activity.unseen(), Duration::ZERO);
        std::fs::write(&account, "").unwrap();
        assert_eq!(activity.unseen(), Duration::MAX, "a removed group has no processor time");
        let mut unknown = Activity::of(None);
        unknown.unseen();
        unknown.look_begins();
        assert_eq!(unknown.unseen(), Duration::MAX);
    }

    #[test]
    fn a_sandbox_that_is_silent_for_a_minute_is_checked_less_often_until_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let account = directory.path().join("cpuacct.usage");
        std::fs::write(&account, "1000\n").unwrap();
        let mut activity = Activity::of(Some(&account));
        let usual = Duration::from_secs(1);
        activity.unseen();
        assert_eq!(activity.pause(usual), usual);
        activity.grew = Instant::now().checked_sub(SILENT).unwrap();
        activity.unseen();
        assert_eq!(activity.pause(usual), SILENT_PAUSE);
        assert_eq!(activity.pause(SILENT_PAUSE * 2), SILENT_PAUSE * 2);
        std::fs::write(&account, "1500\n").unwrap();
        activity.unseen();
        assert_eq!(activity.pause(usual), usual);
        let mut unknown = Activity::of(None);
        unknown.grew = Instant::now().checked_sub(SILENT).unwrap();
        unknown.unseen();
        assert_eq!(unknown.pause(usual), usual, "without a count, it may have run");
    }

    #[test]
    fn processor_time_is_read_from_both_cgroup_versions() {
        let unified = "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 0\n";
        assert_eq!(usage(unified), Some(Duration::from_micros(1500)));
        assert_eq!(usage("1500000\n"), Some(Duration::from_micros(1500)));
        assert_eq!(usage("some 0\n"), None);
    }
}
