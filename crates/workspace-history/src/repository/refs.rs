//! Reads and writes the branches and tags of a repository as files, through descriptors that follow no link. Uses git
//! only for a repository that keeps refs in tables.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::finding::Repository;
use crate::file_tree::{FileTree, OpenDirectory};
use crate::git::{Git, GitError};
use crate::tree_path::TreePath;

const HEAD: &[u8] = b"HEAD";
const MOST_REF: u64 = 4 * 1024;
/// Enough for several hundred thousand packed refs.
const MOST_PACKED: u64 = 64 << 20;
const MOST_REFS: usize = 500_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Full names, and `HEAD`, each with its commit or with `ref: <name>`.
pub type Refs = BTreeMap<TreePath, String>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefProblem {
    #[error("`{0}` already exists")]
    Exists(TreePath),
    #[error("`{name}` cannot be written")]
    Write { name: TreePath, source: io::Error },
    #[error(transparent)]
    Git(#[from] GitError),
}

impl Repository {
    /// Returns true if the refs are in tables, which only git can read.
    fn has_tables(&self) -> bool {
        self.common_dir.join("reftable").is_dir()
    }

    /// Returns all refs, and this checkout's HEAD. Skips files that git does not treat as refs.
    pub fn refs(&self, git: &Git) -> io::Result<Refs> {
        if self.has_tables() {
            return self.refs_in_tables(git).map_err(io::Error::other);
        }
        let common = FileTree::open(&self.common_dir)?;
        let mut refs = packed(&common.directory(&TreePath::default())?);
        let mut pending = vec![TreePath::from("refs")];
        while let Some(at) = pending.pop() {
            let directory = match common.enter(&at) {
                Ok(directory) => directory,
                Err(Errno::NOENT) => continue,
                Err(errno) => {
                    let why = format!("`{at}` cannot be read: {}", io::Error::from(errno));
                    return Err(io::Error::other(why));
                }
            };
            for name in directory.names()? {
                let path = at.join(&name);
                match directory.look(&name).map(|found| found.file_type) {
                    Ok(FileType::Directory) => pending.push(path),
                    Ok(FileType::RegularFile) if !name.ends_with(b".lock") => {
                        if let Some(value) = read_ref(&directory, &name) {
                            refs.insert(path, value);
                        }
                    }
                    _ => {}
                }
            }
            if refs.len() > MOST_REFS {
                return Err(io::Error::other("there are too many refs"));
            }
        }
        let own = FileTree::open(&self.git_dir)?.directory(&TreePath::default())?;
        refs.extend(read_ref(&own, HEAD).map(|value| (TreePath::from("HEAD"), value)));
        Ok(refs)
    }

    fn refs_in_tables(&self, git: &Git) -> Result<Refs, GitError> {
        let ask = |words: &[&str]| git.run_in(&self.root, words, None, PATIENCE);
        let format = "--format=%(refname)%00%(objectname)%00%(symref)";
        let answer = ask(&["for-each-ref", format])?.checked()?;
        let mut refs = Refs::new();
        for line in answer.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == 0);
            let (Some(name), Some(id), Some(symref)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (id, symref) = (String::from_utf8_lossy(id), String::from_utf8_lossy(symref));
            let value = if symref.is_empty() { id.into_owned() } else { format!("ref: {symref}") };
            refs.extend(TreePath::checked(name).map(|name| (name, value)));
        }
        let answer = ask(&["symbolic-ref", "--quiet", "HEAD"])?;
        let head = match answer.status.success() {
            true => format!("ref: {}", String::from_utf8_lossy(&answer.stdout).trim_end()),
            false => {
                let answer = ask(&["rev-parse", "--verify", "--quiet", "HEAD"])?.checked()?;
                String::from_utf8_lossy(&answer).trim_end().to_owned()
            }
        };
        refs.insert(TreePath::from("HEAD"), head);
        Ok(refs)
    }

    /// Creates a ref that must not exist yet.
    pub fn create_ref(&self, git: &Git, name: &str, commit: &str) -> Result<(), RefProblem> {
        let path = TreePath::from(name);
        let exists = || RefProblem::Exists(path.clone());
        if self.has_tables() {
            let words = ["update-ref", "--no-deref", name, commit, ""];
            git.run_in(&self.root, words, None, PATIENCE)?.checked()?;
            return Ok(());
        }
        let failed = |source| RefProblem::Write { name: path.clone(), source };
        let refs = self.refs(git).map_err(failed)?;
        // Git would treat one ref as the directory of the other.
        if refs.keys().any(|other| other.is_within(&path) || path.is_within(other)) {
            return Err(exists());
        }
        self.write_file(&path, commit).map_err(failed)
    }

    /// Sets a ref, or HEAD, to a value; `None` removes it.
    pub fn set_ref(
        &self,
        git: &Git,
        name: &TreePath,
        value: Option<&str>,
    ) -> Result<(), RefProblem> {
        let failed = |source| RefProblem::Write { name: name.clone(), source };
        match value {
            Some(value) if !self.has_tables() => self.write_file(name, value).map_err(failed),
            value => {
                // Git does this, because packed refs and tables are rewritten as a whole.
                let text = String::from_utf8(name.as_bytes().to_vec());
                let text = text.map_err(|error| failed(io::Error::other(error)))?;
                let words = match value.map(|value| (value, value.strip_prefix("ref: "))) {
                    None => vec!["update-ref", "--no-deref", "-d", &text],
                    Some((_, Some(target))) => vec!["symbolic-ref", &text, target],
                    Some((value, None)) => vec!["update-ref", "--no-deref", &text, value],
                };
                git.run_in(&self.root, words, None, PATIENCE)?.checked()?;
                Ok(())
            }
        }
    }

    /// Writes a ref with git's lock file, but through descriptors that refuse a link on the way, even one that has just
    /// appeared. Writes no reflog.
    fn write_file(&self, name: &TreePath, value: &str) -> io::Result<()> {
        let within = if name.as_bytes() == HEAD { &self.git_dir } else { &self.common_dir };
        let tree = FileTree::open(within)?;
        let parent = name.parent().unwrap_or_default();
        let directory = make_directories(&tree, &parent)?;
        let lock = [name.name(), b".lock"].concat();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o644);
        let file =
            rustix::fs::openat(directory.fd(), lock.as_slice(), flags | OFlags::CLOEXEC, mode)?;
        let mut file = std::fs::File::from(file);
        let written = file.write_all(format!("{value}\n").as_bytes()).and_then(|()| {
            // When git deletes refs, it may leave an empty directory with that name.
            let unlinked = rustix::fs::unlinkat(directory.fd(), name.name(), AtFlags::REMOVEDIR);
            match unlinked {
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(errno.into()),
            }
            rustix::fs::renameat(directory.fd(), lock.as_slice(), directory.fd(), name.name())?;
            Ok(())
        });
        if written.is_err() {
            rustix::fs::unlinkat(directory.fd(), lock.as_slice(), AtFlags::empty()).ok();
        }
        written
    }
}

fn make_directories(tree: &FileTree, path: &TreePath) -> io::Result<OpenDirectory> {
    let mut at = TreePath::default();
    for name in path.names() {
        let mode = Mode::from_raw_mode(0o755);
        match rustix::fs::mkdirat(tree.directory(&at)?.fd(), name, mode) {
            Ok(()) | Err(Errno::EXIST) => at = at.join(name),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(tree.directory(path)?)
}

fn read_ref(directory: &OpenDirectory, name: &[u8]) -> Option<String> {
    let text = directory.small_text(name, MOST_REF)?;
    let text = text.trim_end();
    let is_ref = is_commit(text) || text.starts_with("ref: ");
    is_ref.then(|| text.to_owned())
}

pub(crate) fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn packed(directory: &OpenDirectory) -> Refs {
    let text = directory.small_bytes(b"packed-refs", MOST_PACKED).unwrap_or_default();
    let of_line = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b' ')?;
        let id = std::str::from_utf8(&line[..at]).ok().filter(|id| is_commit(id))?;
        Some((TreePath::checked(&line[at + 1..])?, id.to_owned()))
    };
    text.split(|byte| *byte == b'\n').filter_map(of_line).collect()
}

/// Returns the commit that a ref leads to.
pub(crate) fn resolve<'a>(refs: &'a Refs, name: &TreePath) -> Option<&'a str> {
    let mut value = refs.get(name)?;
    // Git follows at most this many links.
    for _ in 0..5 {
        match value.strip_prefix("ref: ") {
            None => return Some(value),
            Some(next) => value = refs.get(&TreePath::checked(next.as_bytes())?)?,
        }
    }
    None
}
