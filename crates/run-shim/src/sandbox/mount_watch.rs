//! Watches the mounts that protect the workspace.
//!
//! No process inside the sandbox can unmount anything. But a process on the host can take a protection away, in the
//! workspace or in its repository:
//!
//! ```text
//!   it removes or replaces the file below a mount     the kernel removes the mount, and reports that
//!   (rmdir .cursor, git config)
//!   it renames that file (mv .git/hooks aside)        the mount moves with it; only inotify reports that
//! ```
//!
//! From then on, the agent could write there, so the shim [repairs](super::repair) the mount or ends the run. The kernel
//! reports both, so the shim does not poll.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ground::inotify::{Inotify, WatchFlags};
use sandbox_plan::SandboxPlan;
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

/// The interval between two checks if inotify does not work here.
const WITHOUT_INOTIFY: Duration = Duration::from_secs(1);

/// The mounts of one sandbox. It keeps them alive, so it must be dropped before the clean-up.
pub(crate) struct MountWatch {
    mountinfo: AsyncFd<File>,
    /// Reports that a mount point was renamed.
    renamed: Option<AsyncFd<Inotify>>,
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
        let renamed = Inotify::new()
            .and_then(|inotify| AsyncFd::with_interest(inotify, Interest::READABLE))
            .inspect_err(|error| tracing::warn!(%error, "cannot watch for renamed mount points"))
            .ok();
        Ok(Self { mountinfo, renamed, plan, has_looked: false })
    }

    /// Waits until a mount of the plan is gone, and returns its path. Cancel safe.
    pub(crate) async fn lost(&mut self) -> PathBuf {
        loop {
            // The first check notices a loss since the verification.
            if self.has_looked {
                self.changed().await;
            }
            self.has_looked = true;
            if let Some(lost) = self.look() {
                return lost;
            }
        }
    }

    async fn changed(&self) {
        tokio::select! {
            changed = self.mountinfo.ready(Interest::PRIORITY | Interest::ERROR) => match changed {
                Ok(mut changed) => changed.clear_ready_matching(Ready::ALL),
                // This happens only when the runtime ends.
                Err(_) => std::future::pending().await,
            },
            () = renamed(self.renamed.as_ref()) => {}
        }
    }

    /// Watches the mount points themselves, not what happens in them. After a repair, the mount point is another file, so
    /// this happens again before each check.
    fn watch_renames(&mut self) {
        let Some(inotify) = &self.renamed else { return };
        let flags = WatchFlags::MOVE_SELF | WatchFlags::DONT_FOLLOW;
        let watched = self.plan.mount_points_on_host().try_for_each(|point| {
            match inotify.get_ref().add(&point, flags) {
                // If the file is gone, so is its mount, and the check notices that.
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        });
        if let Err(error) = watched {
            tracing::warn!(%error, "cannot watch every mount point, so the shim looks every second");
            self.renamed = None;
        }
    }

    fn look(&mut self) -> Option<PathBuf> {
        self.watch_renames();
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

/// Waits until a mount point may have been renamed.
async fn renamed(watch: Option<&AsyncFd<Inotify>>) {
    let Some(watch) = watch else { return tokio::time::sleep(WITHOUT_INOTIFY).await };
    match watch.readable().await {
        Ok(mut readable) => {
            let events = readable.get_inner().read();
            events.inspect_err(|error| tracing::warn!(%error, "cannot read inotify")).ok();
            readable.clear_ready();
        }
        // This happens only when the runtime ends.
        Err(_) => std::future::pending().await,
    }
}
