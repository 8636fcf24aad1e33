//! Sees that what was mounted to protect the workspace stays mounted.
//!
//! Nobody inside can unmount anything. But whoever removes or replaces on the host what something is mounted over, in the
//! workspace or in its repository, takes the mount away with it: the kernel does that to all namespaces but the one in which
//! it is done. `rmdir .cursor` does it, and so does `git config`, which writes a new file and puts it in the place of the
//! old. From then on the agent could write there. The kernel wakes whoever waits for changes of a namespace's mounts, so
//! nothing is polled.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::sync::Arc;

use sandbox_plan::SandboxPlan;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

/// The mounts of one sandbox. Holds on to them, so it must go before anything is cleaned up.
pub(crate) struct MountWatch {
    mountinfo: AsyncFd<File>,
    plan: Arc<SandboxPlan>,
    has_looked: bool,
}

impl MountWatch {
    /// `init` is the first process of the sandbox, as we see it.
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may name another descriptor later; an open file cannot"
    )]
    pub(crate) fn new(plan: Arc<SandboxPlan>, init: u32) -> io::Result<Self> {
        let mountinfo = File::open(format!("/proc/{init}/mountinfo"))?;
        let mountinfo = AsyncFd::with_interest(mountinfo, Interest::PRIORITY | Interest::ERROR)?;
        Ok(Self { mountinfo, plan, has_looked: false })
    }

    /// Waits until a mount is gone that was planned, and says which. Cancel safe.
    pub(crate) async fn lost(&mut self) -> PathBuf {
        loop {
            // What went between the verification and now is seen at once.
            if self.has_looked {
                match self.mountinfo.ready(Interest::PRIORITY | Interest::ERROR).await {
                    Ok(mut changed) => changed.clear_ready_matching(Ready::ALL),
                    // Only when the runtime ends.
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
            Ok(_) => self.plan.lost(&text).map(ToOwned::to_owned),
            Err(error) => {
                tracing::warn!(%error, "the mounts of the sandbox cannot be looked at");
                None
            }
        }
    }
}

/// The next loss of a watch, if there is a watch.
pub(crate) async fn lost(watch: &mut Option<MountWatch>) -> PathBuf {
    match watch {
        Some(watch) => watch.lost().await,
        None => std::future::pending().await,
    }
}
