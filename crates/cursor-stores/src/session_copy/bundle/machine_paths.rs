//! Rewrites one machine's paths for another.

use std::borrow::Cow;

use memchr::memmem::Finder;

use crate::workspace_json::decode;

/// Stands for the workspace at the beginning of a path in a bundle. An import inserts its own workspace.
pub(crate) const WORKSPACE: &str = "${workspace}";
const FILE: &str = "file://";

/// The paths that reveal where a session was on its machine.
#[derive(Debug, Clone, Default)]
pub struct MachinePaths {
    workspace: Option<String>,
    revealing: Vec<Finder<'static>>,
}

impl MachinePaths {
    /// Uses the workspace if it is known, and the home directory under each of its names.
    #[must_use]
    pub fn new(workspace: Option<&str>, homes: &[&str]) -> Self {
        // Everything is below the root directory, so it reveals nothing.
        let workspace = workspace.filter(|path| path.len() > 1 && path.starts_with('/'));
        let paths = homes.iter().copied().chain(workspace).filter(|path| path.len() > 1);
        let mut revealing: Vec<String> =
            paths.flat_map(|path| [path.to_owned(), uri_encoded(path)]).collect();
        revealing.sort_unstable();
        revealing.dedup();
        Self {
            workspace: workspace.map(str::to_owned),
            revealing: revealing.iter().map(|path| Finder::new(path).into_owned()).collect(),
        }
    }

    /// True if the bytes contain one of the paths, or a path below one.
    pub(crate) fn are_named_in(&self, data: &[u8]) -> bool {
        self.revealing.iter().any(|path| {
            path.find_iter(data).any(|at| {
                // `/home/ada` is not in `/home/adam`.
                !data.get(at + path.needle().len()).is_some_and(u8::is_ascii_alphanumeric)
            })
        })
    }
}

/// How to change paths outside messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PathChange<'a> {
    /// Paths leave their machine: workspace paths become relative, others are left out.
    Departure(&'a MachinePaths),
    /// Paths arrive on another machine: workspace paths move below its workspace. No path may lead outside it.
    Arrival { workspace: &'a str },
}

impl PathChange<'_> {
    /// Returns the new form of a path or a `file:` address. `None` if it must be left out.
    pub(crate) fn of_place<'p>(&self, place: &'p str) -> Option<Cow<'p, str>> {
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

    /// True if bytes must be left out because they name a path on their machine.
    pub(crate) fn forbids(&self, data: &[u8]) -> bool {
        match self {
            Self::Departure(paths) => paths.are_named_in(data),
            Self::Arrival { .. } => false,
        }
    }
}

/// Returns the rest of a path below a directory: empty, or beginning with a slash. `None` if the path is not below it,
/// or leads up again.
fn below<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(directory.trim_end_matches('/'))?;
    ((rest.is_empty() || rest.starts_with('/')) && !leads_up(rest)).then_some(rest)
}

/// Like [`below`], but for the path of a `file:` address. The rest stays encoded.
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

/// True for a path that is not absolute on any system, is not an address, and does not lead up.
fn is_relative(place: &str) -> bool {
    let is_rooted = place.starts_with(['/', '\\', '~']);
    let has_scheme = place.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    !is_rooted && !has_scheme && !leads_up(place)
}

/// Returns the address of a path.
pub(crate) fn file_uri(path: &str) -> String {
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
