//! For how long anything in a sandbox has run since the last look at what it did.
//!
//! A group that took no time of a processor wrote nothing and filled nothing. So one small file of the kernel's answers for
//! a silent agent what would else be asked by walks through directories.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// The first number in the account is the sum of all.
const BEGINNING: usize = 64;

/// The account of a group's processor time, and what it said when a look began.
#[derive(Debug)]
pub(super) struct Activity {
    /// `None` where the kernel keeps no such account: then everything may have run.
    account: Option<File>,
    now: Option<Duration>,
    looked_at: Option<Duration>,
}

impl Activity {
    /// Until something is looked at for the first time, everything is unseen.
    pub(super) fn of(account: Option<&Path>) -> Self {
        let account = account.and_then(|path| File::open(path).ok());
        Self { account, now: None, looked_at: None }
    }

    /// For how long the group has run since a look began; what nobody counts may have run for ever.
    pub(super) fn unseen(&mut self) -> Duration {
        self.now = self.account.as_ref().and_then(|account| {
            let mut text = [0; BEGINNING];
            let length = account.read_at(&mut text, 0).ok()?;
            usage(std::str::from_utf8(&text[..length]).ok()?)
        });
        match (self.now, self.looked_at) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            _ => Duration::MAX,
        }
    }

    /// Says that a look begins. What has run since [`Activity::unseen`] was asked stays unseen.
    pub(super) fn look_begins(&mut self) {
        self.looked_at = self.now;
    }
}

/// `cpuacct.usage` of version 1 has nanoseconds, `cpu.stat` of version 2 begins with microseconds and their name.
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
    fn what_ran_stays_unseen_until_a_look_and_without_an_account_everything_is() {
        let directory = tempfile::tempdir().unwrap();
        let account = directory.path().join("cpuacct.usage");
        std::fs::write(&account, "1000\n").unwrap();
        let mut activity = Activity::of(Some(&account));
        assert_eq!(activity.unseen(), Duration::MAX, "nothing was looked at yet");
        activity.look_begins();
        assert_eq!(activity.unseen(), Duration::ZERO);
        std::fs::write(&account, "1500\n").unwrap();
        assert_eq!(activity.unseen(), Duration::from_nanos(500));
        assert_eq!(activity.unseen(), Duration::from_nanos(500), "no look came in between");
        activity.look_begins();
        assert_eq!(activity.unseen(), Duration::ZERO);
        std::fs::write(&account, "").unwrap();
        assert_eq!(activity.unseen(), Duration::MAX, "a group that is gone says nothing");
        let mut unknown = Activity::of(None);
        unknown.unseen();
        unknown.look_begins();
        assert_eq!(unknown.unseen(), Duration::MAX);
    }

    #[test]
    fn both_versions_say_how_long_it_was() {
        let unified = "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 0\n";
        assert_eq!(usage(unified), Some(Duration::from_micros(1500)));
        assert_eq!(usage("1500000\n"), Some(Duration::from_micros(1500)));
        assert_eq!(usage("some 0\n"), None);
    }
}
