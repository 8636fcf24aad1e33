//! Being told by the kernel that the user's login, or the agent's copy of it, has changed.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use run_journal::StateRoot;

use crate::login_copy::{exchange, host_file_of, note};

/// Starts a thread that keeps both the same. It ends when the copy is gone; the run's own end does not wait for it.
pub(crate) fn start(directory: PathBuf, state: StateRoot) {
    let watched = Watch::of(&directory);
    let started = watched.and_then(|watch| {
        let thread = std::thread::Builder::new().name("login".to_owned());
        thread.spawn(move || watch.keep_the_same(&directory, &state))
    });
    if let Err(error) = started {
        // What the agent refreshes is then given back when it ends, as it would be anyway.
        tracing::warn!(%error, "the login is not watched");
    }
}

struct Watch {
    inotify: Inotify,
    host_name: std::ffi::OsString,
}

impl Watch {
    // Directories, for both files are replaced by renaming as often as they are written.
    fn of(directory: &Path) -> io::Result<Self> {
        let host_file = host_file_of(directory)?;
        let parent = host_file.parent().unwrap_or(Path::new("/"));
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC)?;
        let changes = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
        inotify.add_watch(parent, changes)?;
        inotify.add_watch(&directory.join("inside"), changes | AddWatchFlags::IN_DELETE_SELF)?;
        let host_name = host_file.file_name().unwrap_or_default().to_owned();
        Ok(Self { inotify, host_name })
    }

    fn keep_the_same(&self, directory: &Path, state: &StateRoot) {
        loop {
            // The agent may have been quicker than we were.
            if !directory.exists() {
                return;
            }
            let exchanged = exchange(directory, state);
            if directory.exists() {
                note(&exchanged);
            }
            loop {
                match self.inotify.read_events() {
                    Ok(events) => {
                        let concerns = |name: Option<&OsStr>| {
                            name.is_none_or(|name| name == self.host_name || name == "auth.json")
                        };
                        if events.iter().any(|event| concerns(event.name.as_deref())) {
                            break;
                        }
                    }
                    Err(Errno::EINTR | Errno::EAGAIN) => {}
                    Err(_) => return,
                }
            }
        }
    }
}
