//! Paths of one machine in a copy for another.

use std::borrow::Cow;

use memchr::memmem::Finder;

use crate::workspace_json::decode;

/// What stands for the workspace in a bundle, at the beginning of a path. An import puts its own workspace there.
pub(super) const WORKSPACE: &str = "${workspace}";
const FILE: &str = "file://";

/// What would tell where on its machine a session was.
#[derive(Debug, Clone, Default)]
pub struct MachinePaths {
    workspace: Option<String>,
    telling: Vec<Finder<'static>>,
}

impl MachinePaths {
    /// The workspace if it is known, and the home directory under each name that it has.
    #[must_use]
    pub fn new(workspace: Option<&str>, homes: &[&str]) -> Self {
        // What is below the root directory is everything, and tells nothing.
        let workspace = workspace.filter(|path| path.len() > 1 && path.starts_with('/'));
        let paths = homes.iter().copied().chain(workspace).filter(|path| path.len() > 1);
        let mut telling: Vec<String> =
            paths.flat_map(|path| [path.to_owned(), uri_encoded(path)]).collect();
        telling.sort_unstable();
        telling.dedup();
        Self {
            workspace: workspace.map(str::to_owned),
            telling: telling.iter().map(|path| Finder::new(path).into_owned()).collect(),
        }
    }

    /// Tells whether one of the paths, or one below it, is anywhere in the bytes.
    pub(super) fn are_named_in(&self, data: &[u8]) -> bool {
        self.telling.iter().any(|path| {
            path.find_iter(data).any(|at| {
                // `/home/ada` is not in `/home/adam`.
                !data.get(at + path.needle().len()).is_some_and(u8::is_ascii_alphanumeric)
            })
        })
    }
}

/// What becomes of the paths that a session keeps beside what was said.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathChange<'a> {
    /// They leave their machine: those below the workspace are told from there, others stay behind.
    Departure(&'a MachinePaths),
    /// They come to another: those below the workspace are below the one there, and none leads out of it.
    Arrival { workspace: &'a str },
}

impl PathChange<'_> {
    /// What a path, or a `file:` address, becomes. `None` if it may not come along.
    pub(super) fn of_place<'p>(&self, place: &'p str) -> Option<Cow<'p, str>> {
        match self {
            Self::Departure(paths) => {
                let from = paths.workspace.as_deref();
                let below = match place.strip_prefix(FILE) {
                    Some(path) => uri_below(path, from?).map(|rest| (FILE, rest)),
                    None => below(place, from.unwrap_or("/")).map(|rest| ("", rest)),
                };
                match below.filter(|_| from.is_some()) {
                    Some((scheme, rest)) => Some(format!("{scheme}{WORKSPACE}{rest}").into()),
                    None => Some(place)
                        .filter(|place| {
                            is_relative(place)
                                && !place.starts_with(WORKSPACE)
                                && !paths.are_named_in(place.as_bytes())
                        })
                        .map(Cow::from),
                }
            }
            Self::Arrival { workspace } => match place.strip_prefix(FILE) {
                Some(path) => {
                    let rest = uri_below(path, WORKSPACE)?;
                    Some(format!("{}{rest}", file_uri(workspace)).into())
                }
                None if place.starts_with(WORKSPACE) => {
                    Some(format!("{workspace}{}", below(place, WORKSPACE)?).into())
                }
                None => is_relative(place).then_some(place.into()),
            },
        }
    }

    /// Tells whether bytes must stay behind because they name a path of their machine.
    pub(super) fn forbids(&self, data: &[u8]) -> bool {
        match self {
            Self::Departure(paths) => paths.are_named_in(data),
            Self::Arrival { .. } => false,
        }
    }
}

/// What follows a directory in the path of something in it: nothing, or something that begins with a slash and stays below.
fn below<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(directory.trim_end_matches('/'))?;
    ((rest.is_empty() || rest.starts_with('/')) && !leads_up(rest)).then_some(rest)
}

/// The same for the path of a `file:` address. What follows stays as it is encoded.
fn uri_below<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    let directory: Vec<&str> = directory.trim_end_matches('/').split('/').collect();
    let mut steps = path.splitn(directory.len() + 1, '/');
    let is_in =
        directory.iter().all(|wanted| steps.next().is_some_and(|step| decode(step) == *wanted));
    let rest = steps.next().map_or("", |rest| &path[path.len() - rest.len() - 1..]);
    (is_in && !leads_up(&decode(rest))).then_some(rest)
}

fn leads_up(path: &str) -> bool {
    path.split(['/', '\\']).any(|step| step == "..")
}

/// Neither absolute in the way of any system, nor an address, nor a way up.
fn is_relative(place: &str) -> bool {
    let is_rooted = place.starts_with(['/', '\\', '~']);
    let has_scheme = place.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    !is_rooted && !has_scheme && !leads_up(place)
}

/// The address of a path.
pub(super) fn file_uri(path: &str) -> String {
    format!("{FILE}{}", uri_encoded(path))
}

fn uri_encoded(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
#[path = "machine_paths_tests.rs"]
mod tests;
