//! The run's two sockets: one for programs on the host, one for the agent inside.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use run_journal::{RunDirectory, StateRoot, WriterPresence};
use run_protocol::RunId;
use tokio::net::UnixListener;

use crate::control::control_socket::listen;

/// The longest path that the kernel accepts for a socket.
const LONGEST_PATH: usize = 107;

/// The paths of a run's sockets.
#[derive(Debug, Clone)]
pub struct SocketPaths {
    directory: PathBuf,
}

impl SocketPaths {
    /// `root` is the directory for all sockets.
    pub fn new(root: &Path, run: RunId) -> Self {
        Self { directory: root.join(run.to_string()) }
    }

    /// The socket for programs on the host.
    pub fn control(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    /// The directory that the sandbox mounts. It has only the agent's socket.
    pub fn inside(&self) -> PathBuf {
        self.directory.join("inside")
    }

    /// Removes the sockets of a run that is over. A leftover would be harmless.
    pub(crate) fn remove(&self) {
        fs::remove_dir_all(&self.directory).ok();
    }

    pub(crate) fn exist(&self) -> bool {
        self.directory.exists()
    }

    /// Tells whether the kernel accepts these paths.
    pub fn fit(&self) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let longest = self.inside().join("mcp.sock");
        longest.as_os_str().as_bytes().len().max(self.control().as_os_str().as_bytes().len())
            <= LONGEST_PATH
    }
}

/// Removes a run's sockets if the run is over. A queued run may have a second shim, if its first one died.
pub(crate) fn remove_if_over(state: &StateRoot, root: &Path, run: RunId) {
    let Ok(directory) = RunDirectory::open(state, run) else {
        return SocketPaths::new(root, run).remove();
    };
    if matches!(directory.writer(), Ok(WriterPresence::Gone(_))) {
        let own_root = directory.spec().map_or_else(|_| root.to_owned(), |spec| spec.socket_dir.0);
        SocketPaths::new(&own_root, run).remove();
    }
}

/// Removes the sockets of all runs that are over, and returns how many. Ignores runs from other state directories,
/// which may share this directory.
pub(crate) fn sweep(state: &StateRoot, root: &Path) -> usize {
    let Ok(entries) = fs::read_dir(root) else { return 0 };
    let removed = entries.flatten().filter(|entry| {
        let run: Option<RunId> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(run) = run.filter(|run| state.run_dir(run).is_dir()) else { return false };
        remove_if_over(state, root, run);
        !SocketPaths::new(root, run).exist()
    });
    removed.count()
}

/// The listening sockets. Dropping them removes their directory.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) paths: SocketPaths,
    pub(crate) control: Option<UnixListener>,
    pub(crate) mcp: Option<UnixListener>,
}

impl Sockets {
    pub(crate) fn new(root: &Path, run: RunId) -> io::Result<Self> {
        let paths = SocketPaths::new(root, run);
        private_dir(root)?;
        private_dir(&paths.directory)?;
        private_dir(&paths.inside())?;
        let control = Some(listen(&paths.control())?);
        let mcp = Some(listen(&paths.inside().join("mcp.sock"))?);
        Ok(Self { paths, control, mcp })
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.paths.remove();
    }
}

/// Makes a directory that only this user can enter. Refuses anything else at that path, because the path may be in
/// `/tmp`.
pub fn private_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    let is_ours = found.is_dir()
        && found.uid() == nix::unistd::geteuid().as_raw()
        && found.mode() & 0o077 == 0;
    if is_ours {
        return Ok(());
    }
    let problem = format!("`{}` is not a directory that only you can enter", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}
