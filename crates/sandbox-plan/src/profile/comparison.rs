//! Whether one profile allows more than another.

use super::{Access, MissingNames, Profile, RootCaller, Rules, Unprotected};
use crate::origin::Sourced;

impl Profile {
    /// Returns the keys in which this profile allows more than `other`; none if everything that it allows is allowed there.
    ///
    /// Lists are compared entry by entry as they are written, so two ways to write the same directory count as a
    /// difference. Limits of the machine (`limits.*`) are not compared: a run has its own.
    pub fn wider_than(&self, other: &Self) -> Vec<&'static str> {
        match (&self.rules, &other.rules) {
            (_, None) => Vec::new(),
            (None, Some(_)) => vec!["confinement"],
            (Some(now), Some(before)) => now.wider_than(before),
        }
    }
}

impl Rules {
    fn wider_than(&self, other: &Self) -> Vec<&'static str> {
        // Without `..`: a new key has to be compared, or to be left out by name.
        let Self {
            root_caller,
            namespaces,
            hostname: _,
            network,
            system_read_only,
            system_links,
            etc,
            // We write these ourselves: they show nothing of the host.
            generated: _,
            // These have one value each.
            proc: _,
            sysctl: _,
            dev: _,
            shm,
            tmp,
            run,
            parents,
            home,
            expose,
            program: _,
            sockets: _,
            dot_cursor: _,
            chats,
            data,
            workspace,
            show,
            protect,
            missing,
            unprotected,
            git,
            git_protect,
            run_variables,
            pass,
            set,
            filters,
            limits: _,
        } = self;
        let writes = |now: &Sourced<Access>, before: &Sourced<Access>| now.value > before.value;
        let set_more = set.iter().any(|(name, now)| {
            !other.set.iter().any(|(known, before)| known == name && before.value == now.value)
        });
        let is_wider = [
            ("caller.root", is_root_let_in(root_caller) && !is_root_let_in(&other.root_caller)),
            ("namespaces.own", has_more(&other.namespaces, namespaces)),
            ("system.read_only", has_more(system_read_only, &other.system_read_only)),
            ("system.links", has_more(system_links, &other.system_links)),
            ("system.etc", has_more(etc, &other.etc)),
            ("kernel.shm", shm.value.0 > other.shm.value.0),
            ("temporary.tmp", tmp.value.0 > other.tmp.value.0),
            ("temporary.run", run.value.0 > other.run.value.0),
            ("temporary.parents", parents.value.0 > other.parents.value.0),
            ("home.size", home.value.0 > other.home.value.0),
            ("tools.expose", has_more(expose, &other.expose)),
            ("run.chats", writes(chats, &other.chats)),
            ("run.data", writes(data, &other.data)),
            ("workspace.access", writes(workspace, &other.workspace)),
            ("workspace.show", has_more(show, &other.show)),
            ("workspace.protect", has_more(&other.protect, protect)),
            ("workspace.missing", allows_missing(missing) && !allows_missing(&other.missing)),
            (
                "workspace.unprotected",
                *unprotected == Unprotected::Warn && other.unprotected == Unprotected::Refuse,
            ),
            ("workspace.git", writes(git, &other.git)),
            ("workspace.git_protect", has_more(&other.git_protect, git_protect)),
            ("environment.run", has_more(run_variables, &other.run_variables)),
            ("environment.pass", has_more(pass, &other.pass)),
            ("environment.set", set_more),
            ("seccomp.filters", has_more(&other.filters, filters)),
        ];
        let found = is_wider.into_iter().filter(|(_, is_wider)| *is_wider).map(|(key, _)| key);
        found.chain(network.wider_than(&other.network)).collect()
    }
}

/// Whether `one` has an entry that `other` lacks.
pub(super) fn has_more<T: PartialEq>(one: &[Sourced<T>], other: &[Sourced<T>]) -> bool {
    one.iter().any(|entry| !other.iter().any(|known| known.value == entry.value))
}

fn is_root_let_in(caller: &Sourced<RootCaller>) -> bool {
    caller.value == RootCaller::Warn
}

fn allows_missing(missing: &Sourced<MissingNames>) -> bool {
    missing.value == MissingNames::Allowed
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn profile(text: &str) -> Profile {
        Profile::parse("mine", text).unwrap()
    }

    #[test]
    fn every_key_that_allows_more_is_named_and_its_opposite_is_not() {
        let default = profile("extends = \"default\"\n");
        for (text, key) in [
            ("[system]\nread_only = [\"/opt\"]\n", "system.read_only"),
            ("[system]\nlinks = [\"/opt\"]\n", "system.links"),
            ("[system]\netc = [\"/etc/shadow\"]\n", "system.etc"),
            ("[namespaces]\nown = [\"!ipc\"]\n", "namespaces.own"),
            ("[kernel]\nshm = \"1G\"\n", "kernel.shm"),
            ("[temporary]\ntmp = \"2G\"\n", "temporary.tmp"),
            ("[temporary]\nrun = \"2G\"\n", "temporary.run"),
            ("[temporary]\nparents = \"2G\"\n", "temporary.parents"),
            ("[home]\nsize = \"2G\"\n", "home.size"),
            ("[tools]\nexpose = [\"~/.ssh\"]\n", "tools.expose"),
            ("[workspace]\nshow = [\"more\"]\n", "workspace.show"),
            ("[workspace]\nprotect = [\"!.vscode\"]\n", "workspace.protect"),
            ("[workspace]\ngit_protect = [\"!hooks\"]\n", "workspace.git_protect"),
            ("[environment]\npass = [\"AWS_*\"]\n", "environment.pass"),
            ("[environment.set]\nTMPDIR = \"/elsewhere\"\n", "environment.set"),
            ("[seccomp]\nfilters = [\"!nosuid\"]\n", "seccomp.filters"),
            ("[network]\nmode = \"host\"\n", "network.mode"),
            ("[network]\nallow = [\"a.example.org\"]\n", "network.allow"),
            ("[network]\nfiles = [\"/etc/host.conf\"]\n", "network.files"),
            ("[network]\nconnections = 257\n", "network.connections"),
            ("[network]\ntransfer = \"65G\"\n", "network.transfer"),
            ("[network]\nhandshake = \"11s\"\n", "network.handshake"),
            ("[network]\nidle = \"2h\"\n", "network.idle"),
        ] {
            let wider = profile(&format!("extends = \"default\"\n{text}"));
            assert_eq!(wider.wider_than(&default), [key], "{text}");
            // The other way round nothing but a changed variable is more.
            let back = default.wider_than(&wider);
            assert!(back.is_empty() || back == ["environment.set"], "{text}: {back:?}");
            assert_eq!(wider.wider_than(&wider), [""; 0]);
        }
        for (text, key) in [
            ("[caller]\nroot = \"refuse\"\n", "caller.root"),
            ("[run]\nchats = \"read-only\"\n", "run.chats"),
            ("[run]\ndata = \"read-only\"\n", "run.data"),
            ("[workspace]\naccess = \"read-only\"\n", "workspace.access"),
            ("[workspace]\nmissing = \"blocked\"\n", "workspace.missing"),
            ("[workspace]\nunprotected = \"refuse\"\n", "workspace.unprotected"),
            ("[workspace]\ngit = \"read-only\"\n", "workspace.git"),
            ("[environment]\nrun = [\"!SHELL\"]\n", "environment.run"),
        ] {
            let narrower = profile(&format!("extends = \"default\"\n{text}"));
            assert_eq!(narrower.wider_than(&default), [""; 0], "{text}");
            assert_eq!(default.wider_than(&narrower), [key], "{text}");
        }
    }

    #[test]
    fn strict_is_within_default_and_nothing_is_wider_than_no_sandbox() {
        let builtin = |name: &str| profile(&format!("extends = \"{name}\"\n"));
        let (default, strict, off) = (builtin("default"), builtin("strict"), builtin("off"));
        assert_eq!(strict.wider_than(&default), [""; 0]);
        assert!(!default.wider_than(&strict).is_empty());
        assert_eq!(off.wider_than(&default), ["confinement"]);
        assert_eq!(default.wider_than(&off), [""; 0]);
        assert_eq!(off.wider_than(&off), [""; 0]);
    }
}
