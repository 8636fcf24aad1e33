//! Whether anything in a sandbox has run since the last look at what it did.
//!
//! A group that took no time of a processor wrote nothing and filled nothing. So one small file of the kernel's answers for
//! a silent agent what would else be asked by walks through directories.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The first number in the account is the sum of all.
const BEGINNING: usize = 64;

/// The account of a group's processor time, and what it said.
#[derive(Debug)]
pub(super) struct Activity {
    /// `None` where the kernel keeps no such account: then everything may have run.
    account: Option<File>,
    seen: Vec<u8>,
    is_unseen: bool,
}

impl Activity {
    /// Until it is looked at for the first time, everything is new.
    pub(super) fn of(account: Option<&Path>) -> Self {
        let account = account.and_then(|path| File::open(path).ok());
        Self { account, seen: Vec::new(), is_unseen: true }
    }

    /// Whether something may have run that was not looked at yet.
    pub(super) fn is_unseen(&mut self) -> bool {
        let said = self.account.as_ref().and_then(|account| {
            let mut text = [0; BEGINNING];
            let length = account.read_at(&mut text, 0).ok().filter(|length| *length > 0)?;
            Some(text[..length].to_vec())
        });
        match said {
            Some(said) => {
                self.is_unseen |= said != self.seen;
                self.seen = said;
            }
            None => self.is_unseen = true,
        }
        self.is_unseen
    }

    /// Says that a look begins now. What runs from here on is unseen again.
    pub(super) fn look_begins(&mut self) {
        self.is_unseen = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_stays_unseen_until_a_look_and_without_an_account_everything_is() {
        let directory = tempfile::tempdir().unwrap();
        let account = directory.path().join("cpuacct.usage");
        std::fs::write(&account, "1000\n").unwrap();
        let mut activity = Activity::of(Some(&account));
        assert!(activity.is_unseen(), "nothing was looked at yet");
        activity.look_begins();
        assert!(!activity.is_unseen());
        std::fs::write(&account, "1001\n").unwrap();
        assert!(activity.is_unseen());
        assert!(activity.is_unseen(), "no look came in between");
        activity.look_begins();
        assert!(!activity.is_unseen());
        let mut unknown = Activity::of(None);
        unknown.look_begins();
        assert!(unknown.is_unseen());
    }
}
