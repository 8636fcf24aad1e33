//! Finds transcripts below a `projects` directory.
//!
//! ```text
//! projects/<slug>/agent-transcripts/<id>/<id>.jsonl            nested
//!                                   <id>/subagents/<id>.jsonl  of a sub-agent
//!                                   <id>.jsonl                 flat, older
//!                                   <id>.txt                   text, oldest
//! ```

use std::cmp::Reverse;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::model::Damage;

pub(super) const TRANSCRIPTS: &str = "agent-transcripts";
const SUBAGENTS: &str = "subagents";

/// One directory below `projects`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Project {
    pub(super) path: PathBuf,
    /// Its name.
    pub(super) slug: String,
}

/// One transcript, not opened yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptFile {
    pub(super) path: PathBuf,
    pub(super) id: String,
    pub(super) layout: Layout,
    pub(super) project: Arc<Project>,
}

/// Better layouts come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layout {
    Nested,
    Subagent { parent: String },
    Flat,
    Text,
}

/// The result of a walk through a directory.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) files: Vec<TranscriptFile>,
    pub(super) projects: Vec<Arc<Project>>,
    /// Directories where transcripts may appear, except those that already hold one.
    pub(super) directories: Vec<PathBuf>,
    /// Files among the transcripts that are not transcripts.
    pub(super) n_strangers: u64,
    pub(super) damage: Vec<Damage>,
}

impl Project {
    /// True for a window without a workspace. Its transcripts may be copies from a project.
    pub(super) fn is_ghost(&self) -> bool {
        let is_window_id =
            self.slug.len() == 13 && self.slug.bytes().all(|byte| byte.is_ascii_digit());
        is_window_id || self.slug == "empty-window"
    }
}

impl TranscriptFile {
    /// Sorts the files of one conversation, most reliable first.
    pub(super) fn rank(&self) -> impl Ord + use<'_> {
        (self.project.is_ghost(), &self.layout, Reverse(modified(&self.path)), &self.path)
    }

    pub(super) fn parent(&self) -> Option<&str> {
        match &self.layout {
            Layout::Subagent { parent } => Some(parent),
            Layout::Nested | Layout::Flat | Layout::Text => None,
        }
    }

    /// Returns the directory of the conversation's sub-agents.
    pub(super) fn subagents_directory(&self) -> Option<PathBuf> {
        match self.layout {
            Layout::Nested => Some(self.path.parent()?.join(SUBAGENTS)),
            Layout::Flat | Layout::Text => Some(self.path.parent()?.join(&self.id).join(SUBAGENTS)),
            Layout::Subagent { .. } => None,
        }
    }
}

/// Finds all transcripts, without opening any.
pub(super) fn walk(root: &Path) -> Walk {
    let mut walk = Walk { directories: vec![root.to_owned()], ..Walk::default() };
    for (entry, kind) in walk.entries(root) {
        match (kind, entry.file_name().to_str()) {
            (Kind::Directory, Some(slug)) => {
                walk.visit_project(Arc::new(Project { slug: slug.to_owned(), path: entry.path() }))
            }
            (Kind::Directory, None) => {
                walk.damage.push(refused(&entry.path(), "its name is not text"));
            }
            (Kind::Special, _) if fs::metadata(entry.path()).is_ok_and(|file| file.is_dir()) => {
                walk.damage.push(refused(&entry.path(), "a symbolic link, which is not followed"));
            }
            (Kind::Special | Kind::Plain, _) => {}
        }
    }
    walk.projects.sort_by(|left, right| left.path.cmp(&right.path));
    walk
}

/// Finds the files of one conversation, best first, without looking at the others.
pub(super) fn locate(root: &Path, key: &str) -> Vec<TranscriptFile> {
    if key.contains('/') {
        return locate_path(root, Path::new(key)).into_iter().collect();
    }
    if !is_plain_name(key) {
        return Vec::new();
    }
    let mut scrap = Walk::default();
    let projects: Vec<PathBuf> = scrap
        .entries(root)
        .into_iter()
        .filter(|(_, kind)| *kind == Kind::Directory)
        .map(|(entry, _)| Path::new(&entry.file_name()).join(TRANSCRIPTS))
        .collect();
    let own_files = projects.iter().flat_map(|transcripts| {
        [
            transcripts.join(key).join(format!("{key}.jsonl")),
            transcripts.join(format!("{key}.jsonl")),
            transcripts.join(format!("{key}.txt")),
        ]
    });
    let mut found: Vec<TranscriptFile> =
        own_files.filter_map(|path| locate_path(root, &path)).collect();
    if found.is_empty() {
        // Looks below the other conversations. There may be thousands.
        for transcripts in projects {
            for (parent, kind) in scrap.entries(&root.join(&transcripts)) {
                let parent = transcripts.join(parent.file_name());
                let candidates = [
                    parent.join(SUBAGENTS).join(format!("{key}.jsonl")),
                    parent.join(format!("{key}.jsonl")),
                ];
                if kind == Kind::Directory {
                    found.extend(candidates.iter().filter_map(|path| locate_path(root, path)));
                }
            }
        }
    }
    found.sort_by(|left, right| left.rank().cmp(&right.rank()));
    found
}

/// Accepts a path below the root only if a walk would have found it: no `..`, no symlink on the way.
fn locate_path(root: &Path, relative: &Path) -> Option<TranscriptFile> {
    let names: Vec<&str> = relative
        .components()
        .map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let [slug, TRANSCRIPTS, below @ ..] = names.as_slice() else { return None };
    let (id, layout) = match below {
        [name] => flat_file(name)?,
        [_, name] => (name.strip_suffix(".jsonl")?, Layout::Nested),
        [parent, SUBAGENTS, name] => {
            (name.strip_suffix(".jsonl")?, Layout::Subagent { parent: (*parent).to_owned() })
        }
        _ => return None,
    };
    let path = root.join(relative);
    // Only checks that the path exists. `plain_file::open` checks later that it is a plain file.
    fs::symlink_metadata(&path).ok()?;
    let mut directory = root.to_owned();
    let (_, directories) = names.split_last()?;
    for name in directories {
        directory.push(name);
        if !is_directory(&directory) {
            return None;
        }
    }
    let project = Arc::new(Project { path: root.join(slug), slug: (*slug).to_owned() });
    Some(TranscriptFile { path, id: id.to_owned(), layout, project })
}

fn flat_file(name: &str) -> Option<(&str, Layout)> {
    let jsonl = name.strip_suffix(".jsonl").map(|id| (id, Layout::Flat));
    jsonl
        .or_else(|| name.strip_suffix(".txt").map(|id| (id, Layout::Text)))
        .filter(|(id, _)| !id.is_empty())
}

impl Walk {
    fn visit_project(&mut self, project: Arc<Project>) {
        self.projects.push(Arc::clone(&project));
        self.directories.push(project.path.clone());
        let transcripts = project.path.join(TRANSCRIPTS);
        match fs::symlink_metadata(&transcripts) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                self.damage.push(refused(&transcripts, "not a directory"));
                return;
            }
            Err(_) => return,
        }
        self.directories.push(transcripts.clone());
        for (entry, kind) in self.entries(&transcripts) {
            match (entry.file_name().to_str(), kind) {
                (Some(name), Kind::Directory) => self.visit_nested(&project, &entry.path(), name),
                (Some(name), _) => match flat_file(name) {
                    Some((id, layout)) => self.add(&project, entry.path(), id, layout),
                    None => self.n_strangers += 1,
                },
                (None, _) => {
                    self.damage.push(refused(&entry.path(), "its name is not text"));
                }
            }
        }
    }

    fn visit_nested(&mut self, project: &Arc<Project>, directory: &Path, parent: &str) {
        let n_before = self.files.len();
        for (entry, kind) in self.entries(directory) {
            match (entry.file_name().to_str(), kind) {
                (Some(SUBAGENTS), Kind::Directory) => {
                    for (child, kind) in self.entries(&entry.path()) {
                        let name = child.file_name();
                        match name.to_str().and_then(|name| name.strip_suffix(".jsonl")) {
                            Some(id) if kind != Kind::Directory => {
                                let layout = Layout::Subagent { parent: parent.to_owned() };
                                self.add(project, child.path(), id, layout);
                            }
                            _ => self.n_strangers += 1,
                        }
                    }
                }
                (Some(name), Kind::Plain | Kind::Special) => match name.strip_suffix(".jsonl") {
                    Some(id) => self.add(project, entry.path(), id, Layout::Nested),
                    None => self.n_strangers += 1,
                },
                (Some(_), Kind::Directory) => self.n_strangers += 1,
                (None, _) => {
                    self.damage.push(refused(&entry.path(), "its name is not text"));
                }
            }
        }
        // The watch on a transcript covers its directory.
        if self.files.len() == n_before {
            self.directories.push(directory.to_owned());
        }
    }

    fn add(&mut self, project: &Arc<Project>, path: PathBuf, id: &str, layout: Layout) {
        if id.is_empty() {
            self.n_strangers += 1;
            return;
        }
        let project = Arc::clone(project);
        self.files.push(TranscriptFile { path, id: id.to_owned(), layout, project });
    }

    /// Lists a directory. A directory that cannot be listed is damage. A missing one is not.
    fn entries(&mut self, directory: &Path) -> Vec<(DirEntry, Kind)> {
        let listed = fs::read_dir(directory).and_then(|entries| {
            entries
                .map(|entry| {
                    let entry = entry?;
                    let kind = match entry.file_type()? {
                        kind if kind.is_dir() => Kind::Directory,
                        kind if kind.is_file() => Kind::Plain,
                        _ => Kind::Special,
                    };
                    Ok((entry, kind))
                })
                .collect::<io::Result<Vec<_>>>()
        });
        listed.unwrap_or_else(|err| {
            if err.kind() != io::ErrorKind::NotFound {
                self.damage.push(refused(directory, &format!("cannot be listed: {err}")));
            }
            Vec::new()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    Plain,
    /// A link, a FIFO, a socket or a device.
    Special,
}

fn refused(path: &Path, why: &str) -> Damage {
    Damage::new(path.display().to_string(), why)
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn is_plain_name(name: &str) -> bool {
    matches!(Path::new(name).components().collect::<Vec<_>>().as_slice(), [Component::Normal(_)])
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok()
}
