//! Runs commands in a namespace where they are root and may mount, for tests that an ordinary user could not run.
//!
//! If the machine does not allow such a namespace, the tests say so and pass, unless `REQUIRE_SANDBOX=1`.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::process::Command;

use crate::stage::programs::copy_program;
use crate::stage::{Stage, wrapped_in};

/// A kind of namespace that works on this machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Namespace {
    unshare: &'static str,
}

impl Namespace {
    /// Finds a namespace with its own mounts: as root, or else as an ordinary user who becomes root in it.
    pub(crate) fn with_mounts() -> Option<Self> {
        Self::find(["-m", "-Urm"], "mount -t tmpfs none /mnt", "mounts")
    }

    /// Finds a namespace with its own mounts and its own network.
    pub(crate) fn with_network() -> Option<Self> {
        let cable = "PATH=$PATH:/usr/sbin:/sbin; mount -t tmpfs none /mnt && ip link add name a type veth peer name b";
        Self::find(["-mn", "-Urmn"], cable, "a network")
    }

    /// Returns the first kind in which the trial succeeds.
    fn find(kinds: [&'static str; 2], trial: &str, what: &str) -> Option<Self> {
        let found = kinds.into_iter().find(|flags| {
            let tried = Command::new("unshare").args([flags, "sh", "-c", trial]).output();
            tried.is_ok_and(|output| output.status.success())
        });
        if found.is_none() {
            let is_required = std::env::var_os("REQUIRE_SANDBOX").is_some_and(|value| value == "1");
            assert!(!is_required, "cannot create a namespace with its own {what} here");
            eprintln!("cannot create a namespace with its own {what} here, so nothing was tested");
        }
        found.map(|unshare| Self { unshare })
    }

    /// Returns the same command in such a namespace, after the words of `wrapper`.
    pub(crate) fn command(self, wrapper: &[&str], command: &Command) -> Command {
        let mut wrapped = Command::new("unshare");
        wrapped.arg(self.unshare).args(wrapper);
        wrapped_in(wrapped, command)
    }

    /// Gives the command a bubblewrap and a socket directory that it can trust. A user who became root in a namespace
    /// does not see the real root as the owner of files, so bubblewrap is a copy.
    pub(crate) fn trust(self, stage: &Stage, command: &mut Command) {
        let bwrap = std::fs::read("/usr/bin/bwrap").unwrap();
        self.trust_bubblewrap(stage, &bwrap, command);
    }

    /// Like [`Self::trust`], but with this program in place of bubblewrap.
    pub(crate) fn trust_bubblewrap(self, stage: &Stage, program: &[u8], command: &mut Command) {
        let (bin, sockets) = (stage.root().join("bin"), stage.root().join("run"));
        DirBuilder::new().mode(0o700).recursive(true).create(&sockets).unwrap();
        DirBuilder::new().mode(0o755).recursive(true).create(&bin).unwrap();
        let bwrap = bin.join("bwrap");
        if !bwrap.exists() {
            let beside = bin.join("bwrap.content");
            std::fs::write(&beside, program).unwrap();
            copy_program(&beside, &bwrap);
            std::fs::set_permissions(&bwrap, Permissions::from_mode(0o755)).unwrap();
        }
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    }
}
