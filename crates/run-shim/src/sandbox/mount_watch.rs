//! Watches the mounts that protect the workspace.
//!
//! No process inside the sandbox can unmount anything. But a process on the host can remove or replace the file below a
//! mount, in the workspace or in its repository. Then the kernel removes the mount in all other namespaces.
//! `rmdir .cursor` does this, and so does `git config`, which replaces the file with a new one. From then on, the agent
//! could write there, so the shim [repairs](super::repair) the mount or ends the run. The kernel reports changes to a
//! namespace's mounts, so the shim does not poll.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::sync::Arc;

use sandbox_plan::SandboxPlan;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

/// The mounts of one sandbox. It keeps them alive, so it must be dropped before the clean-up.
pub(crate) struct MountWatch {
    mountinfo: AsyncFd<File>,
    plan: Arc<SandboxPlan>,
    has_looked: bool,
}

impl MountWatch {
    /// `init` is the host pid of the sandbox's first process.
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may name another descriptor later; an open file cannot"
    )]
    pub(crate) fn new(plan: Arc<SandboxPlan>, init: u32) -> io::Result<Self> {
        let mountinfo = File::open(format!("/proc/{init}/mountinfo"))?;
        let mountinfo = AsyncFd::with_interest(mountinfo, Interest::PRIORITY | Interest::ERROR)?;
        Ok(Self { mountinfo, plan, has_looked: false })
    }

    /// Waits until a mount of the plan is gone, and returns its path. Cancel safe.
    pub(crate) async fn lost(&mut self) -> PathBuf {
        loop {
            // The first check notices a loss since the verification.
            if self.has_looked {
                match self.mountinfo.ready(Interest::PRIORITY | Interest::ERROR).await {
                    Ok(mut changed) => changed.clear_ready_matching(Ready::ALL),
                    // This happens only when the runtime ends.
                    Err(_) => std::future::pending().await,
                }
            }
            self.has_looked = true;
            if let Some(lost) = self.look() {
                return lost;
            }
        }
    }

    fn look(&self) -> Option<PathBuf> {
        let mut text = Vec::new();
        let mut file = self.mountinfo.get_ref();
        let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
        match read {
            Ok(_) => self.plan.lost(&text).first().map(|lost| (*lost).to_owned()),
            Err(error) => {
                tracing::warn!(%error, "cannot read the sandbox's mounts");
                None
            }
        }
    }
}

/// Waits for the next lost mount, if there is a watch.
pub(crate) async fn lost(watch: &mut Option<MountWatch>) -> PathBuf {
    match watch {
        Some(watch) => watch.lost().await,
        None => std::future::pending().await,
    }
}
