//! Walks a workspace and lists the covered files, without reading their contents.

pub(crate) mod coverage;
pub(crate) mod ignore_rules;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::audit::known_names::known_name;
use crate::file_tree::{FileTree, Found, OpenDirectory};
use crate::snapshot::{Entry, EntryKind};
use crate::tree_path::TreePath;
use crate::walk::coverage::{Coverage, chain, is_git};
use crate::walk::ignore_rules::{DirectoryRules, RuleChain};

/// The limits of a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) most_entries: usize,
    pub(crate) deadline: Instant,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WalkError {
    #[error("it has more than {0} files")]
    TooMany(usize),
    #[error("walking it took too long")]
    TooSlow,
    #[error("`{path}` cannot be read")]
    Read { path: TreePath, source: io::Error },
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) entries: BTreeMap<TreePath, Entry>,
    pub(crate) rules: BTreeMap<TreePath, DirectoryRules>,
    pub(crate) rules_above: Vec<DirectoryRules>,
    pub(crate) left_out: Vec<TreePath>,
    pub(crate) has_git: bool,
    /// Ignored directories, and ignored files that an audit wants to see.
    pub(crate) passed_over: Vec<TreePath>,
}

/// How to treat unreadable files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// Leave them out.
    LeaveOut,
    /// Make them readable for as long as necessary: they belong to the user, and a restore is about to change them.
    OpenUp,
}

pub(crate) struct Walk<'a, 'c> {
    pub(crate) tree: &'a FileTree,
    pub(crate) coverage: &'a Coverage<'c>,
    /// Our own mount points in the workspace during a run. The walk skips them while they are empty.
    pub(crate) skip: &'a [TreePath],
    pub(crate) bounds: Bounds,
    pub(crate) locked: Locked,
}

/// A directory that the walk has yet to enter.
struct Pending {
    path: TreePath,
    rules: RuleChain,
    /// Covers only names in the list.
    is_passed_over: bool,
    /// Covers everything in the directory.
    is_all_covered: bool,
}

struct Listed {
    directory: OpenDirectory,
    names: Vec<Vec<u8>>,
}

impl Walk<'_, '_> {
    pub(crate) fn run(&self) -> Result<Walked, WalkError> {
        let mut walked = Walked::default();
        let (everywhere, outer) = self.rules_around(&mut walked);
        let mut pending = vec![Pending {
            path: TreePath::default(),
            rules: outer,
            is_passed_over: false,
            is_all_covered: false,
        }];
        while let Some(next) = pending.pop() {
            self.go_through(&next, &everywhere, &mut walked, &mut pending)?;
        }
        walked.left_out.sort();
        Ok(walked)
    }

    /// Returns the rules for all repositories, and the rules at the workspace.
    fn rules_around(&self, walked: &mut Walked) -> (RuleChain, RuleChain) {
        let workspace = self.tree.path();
        let above: Vec<DirectoryRules> = match self.coverage {
            Coverage::AsGitWould { .. } => self.coverage.above(workspace),
            Coverage::As { earlier, .. } => earlier.rules_above.clone(),
        };
        let mut everywhere = RuleChain::default();
        let mut outer = RuleChain::default();
        for rules in &above {
            outer = chain(&outer, &RuleChain::default(), rules, workspace);
            if rules.above.as_deref() == Some(workspace) {
                everywhere = outer.clone();
            }
        }
        walked.rules_above = above;
        (everywhere, outer)
    }

    fn go_through(
        &self,
        at: &Pending,
        everywhere: &RuleChain,
        walked: &mut Walked,
        pending: &mut Vec<Pending>,
    ) -> Result<(), WalkError> {
        if Instant::now() > self.bounds.deadline {
            return Err(WalkError::TooSlow);
        }
        let Some(Listed { directory, names }) = self.open(&at.path, walked)? else {
            return Ok(());
        };
        let place = self.tree.path().join(at.path.as_path());
        let rules = match at.is_passed_over || at.is_all_covered {
            true => at.rules.clone(),
            false => {
                let own = self.coverage.rules_in(&at.path, &directory, &names);
                let rules = chain(&at.rules, everywhere, &own, &place);
                if !own.is_empty() {
                    walked.rules.insert(at.path.clone(), own);
                }
                rules
            }
        };
        for name in names {
            let path = at.path.join(&name);
            let is_of_git = is_git(&name);
            if is_of_git {
                let is_root = at.path.as_bytes().is_empty();
                walked.has_git |= is_root;
                if !self.coverage.covers_git(&path) {
                    if !is_root {
                        walked.left_out.push(path);
                    }
                    continue;
                }
            }
            let found = match directory.look(&name) {
                Ok(found) => found,
                // The entry disappeared after its name was read.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(WalkError::Read { path, source: errno.into() }),
            };
            let is_directory = found.file_type == FileType::Directory;
            let is_against_rules = !at.is_all_covered
                && !is_of_git
                && (at.is_passed_over
                    || rules.passes_over(&place.join(as_os(&name)), is_directory));
            if is_against_rules && !self.coverage.is_listed(&path) {
                if is_directory && self.coverage.lists_something_in(&path) {
                    let (rules, is_all_covered) = (rules.clone(), false);
                    pending.push(Pending { path, rules, is_passed_over: true, is_all_covered });
                } else if is_directory || is_worth_a_look(&path, &found) {
                    walked.passed_over.push(path);
                }
                continue;
            }
            if self.skip.contains(&path) && self.is_placeholder(&directory, &name, &found) {
                continue;
            }
            if is_directory {
                let is_in_the_way = self.coverage.is_in_the_way(&path);
                pending.push(Pending {
                    path: path.clone(),
                    rules: rules.clone(),
                    // The rules ignore this directory, but the list names it, so the walk covers only the names that
                    // the list has in it.
                    is_passed_over: is_against_rules && !is_in_the_way,
                    is_all_covered: at.is_all_covered || is_in_the_way || is_of_git,
                });
            }
            let kind = match found.plain_kind() {
                Some(kind) => kind,
                None => match directory.read_link(&name) {
                    Ok(target) => EntryKind::Symlink { target },
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(WalkError::Read { path, source: errno.into() }),
                },
            };
            let Found { mode, stamp, .. } = found;
            walked.entries.insert(path, Entry { kind, mode, stamp });
            if walked.entries.len() > self.bounds.most_entries {
                return Err(WalkError::TooMany(self.bounds.most_entries));
            }
        }
        Ok(())
    }

    /// Returns true if this is only an empty mount point that Caretaker made.
    fn is_placeholder(&self, directory: &OpenDirectory, name: &[u8], found: &Found) -> bool {
        match found.file_type {
            FileType::Directory => is_empty(directory, name),
            FileType::RegularFile => found.size == 0,
            _ => false,
        }
    }

    /// Returns a directory and its names, or `None` if it is left out.
    fn open(&self, path: &TreePath, walked: &mut Walked) -> Result<Option<Listed>, WalkError> {
        let read_error = |source: io::Error| WalkError::Read { path: path.clone(), source };
        let opened = match self.tree.directory(path) {
            Err(Errno::ACCESS) if self.locked == Locked::OpenUp => {
                self.open_up(path).and_then(|()| self.tree.directory(path).map_err(Into::into))
            }
            opened => opened.map_err(io::Error::from),
        };
        let directory = match opened {
            Ok(directory) => directory,
            Err(error) => match Errno::from_io_error(&error) {
                // The directory is gone, or something else has replaced it.
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Some(Errno::ACCESS | Errno::PERM | Errno::NAMETOOLONG)
                    if !path.as_bytes().is_empty() =>
                {
                    walked.left_out.push(path.clone());
                    return Ok(None);
                }
                _ => return Err(read_error(error)),
            },
        };
        let names = directory.names().map_err(read_error)?;
        Ok(Some(Listed { directory, names }))
    }

    fn open_up(&self, path: &TreePath) -> io::Result<()> {
        let Some(parent) = path.parent() else { return Err(Errno::ACCESS.into()) };
        let parent = self.tree.directory(&parent)?;
        let mode = parent.look(path.name())?.mode;
        parent.set_mode(path.name(), mode | 0o700)
    }
}

/// Returns true if an audit should see an ignored file: other programs may obey it, or it is never harmless.
fn is_worth_a_look(path: &TreePath, found: &Found) -> bool {
    found.file_type != FileType::RegularFile
        || found.mode & 0o6000 != 0
        || known_name(path).is_some()
}

fn is_empty(parent: &OpenDirectory, name: &[u8]) -> bool {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(parent.fd(), as_os(name), flags, Mode::empty());
    opened.is_ok_and(|fd| {
        rustix::fs::Dir::new(fd).is_ok_and(|mut entries| {
            entries.all(|entry| {
                entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
            })
        })
    })
}

fn as_os(name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(name))
}
