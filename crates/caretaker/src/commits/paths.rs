//! Turns paths from stores into paths in the repository.

use percent_encoding::percent_decode_str;

/// How a workspace relates to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkspaceMatch {
    /// The root of the repository or of one of its worktrees.
    Same,
    /// A directory in the repository.
    Inside,
    /// A directory that contains the repository.
    Around,
    /// Another directory with the same name: a clone, or the same project on another machine.
    Namesake,
    Unknown,
    Different,
}

/// The relation between a conversation's workspace and a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standpoint {
    pub(super) workspace_match: WorkspaceMatch,
    /// The worktrees of the repository, without a slash at the end.
    roots: Vec<String>,
    /// Empty if unknown.
    workspace: String,
    /// The path from the repository's root to the workspace; empty, or with a slash at the end.
    prefix: String,
}

impl Standpoint {
    /// `workspaces`: the names of the workspace, for instance one with links and one without.
    pub(super) fn new(roots: &[String], workspaces: &[String]) -> Self {
        let roots: Vec<String> = roots.iter().map(|root| plain(root)).collect();
        let names: Vec<String> = workspaces.iter().map(|name| plain(name)).collect();
        let workspace = names.first().cloned().unwrap_or_default();
        let inside = names.iter().find_map(|name| roots.iter().find_map(|root| below(name, root)));
        let is_around =
            names.iter().any(|name| roots.iter().any(|root| below(root, name).is_some()));
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let (workspace_match, prefix) = match inside {
            _ if workspace.is_empty() => (WorkspaceMatch::Unknown, String::new()),
            Some("") => (WorkspaceMatch::Same, String::new()),
            Some(inside) => (WorkspaceMatch::Inside, format!("{inside}/")),
            None if is_around => (WorkspaceMatch::Around, String::new()),
            None if roots.iter().any(|root| last(root) == last(&workspace)) => {
                (WorkspaceMatch::Namesake, String::new())
            }
            None => (WorkspaceMatch::Different, String::new()),
        };
        Self { workspace_match, roots, workspace, prefix }
    }

    /// The path in the repository; `None` if the file is elsewhere.
    pub(super) fn in_repository(&self, path: &str) -> Option<String> {
        let path = plain(path);
        if !is_absolute(&path) {
            // If the workspace contains the repository, a relative path may belong to another project.
            let is_certain = self.workspace_match != WorkspaceMatch::Around;
            return is_certain.then(|| normal(&format!("{}{path}", self.prefix))).flatten();
        }
        // Deepest first, because a worktree may be inside another.
        let mut roots: Vec<&String> = self.roots.iter().collect();
        roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
        if let Some(inside) = roots.into_iter().find_map(|root| below(&path, root)) {
            return normal(inside);
        }
        let inside = below(&path, &self.workspace).filter(|_| !self.workspace.is_empty())?;
        normal(&format!("{}{inside}", self.prefix))
    }
}

/// The rest of `path` below `root`; empty if they are equal.
fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || has_drive(path)
}

fn has_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', b'/', ..] if letter.is_ascii_alphabetic())
}

/// A path with slashes, without a URI scheme, and with a lower-case drive letter.
fn plain(path: &str) -> String {
    let mut path = match path.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
            let after_authority = rest.find('/').map_or("", |slash| &rest[slash..]);
            percent_decode_str(after_authority).decode_utf8_lossy().into_owned()
        }
        _ => path.to_owned(),
    };
    if path.contains('\\') && !path.starts_with('/') {
        path = path.replace('\\', "/");
    }
    if let Some(drive) = path.strip_prefix('/').filter(|rest| has_drive(rest)) {
        path = drive.to_owned();
    }
    if has_drive(&path) {
        path[..1].make_ascii_lowercase();
    }
    path.truncate(path.trim_end_matches('/').len());
    path
}

/// Removes `.` and `..`. Returns `None` if the path leads above its start, or if nothing is left of it.
fn normal(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() { None } else { Some(parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn standpoint(workspace: &str) -> Standpoint {
        let roots = ["/home/ada/parser".to_owned(), "/tmp/parser-fix".to_owned()];
        let workspaces: Vec<String> =
            Some(workspace.to_owned()).filter(|path| !path.is_empty()).into_iter().collect();
        Standpoint::new(&roots, &workspaces)
    }

    #[test]
    fn a_workspace_is_compared_with_all_places_of_the_repository() {
        for (workspace, expected) in [
            ("/home/ada/parser", WorkspaceMatch::Same),
            ("/home/ada/parser/", WorkspaceMatch::Same),
            ("file:///tmp/parser-fix", WorkspaceMatch::Same),
            ("/home/ada/parser/src", WorkspaceMatch::Inside),
            ("/home/ada", WorkspaceMatch::Around),
            ("/srv/parser", WorkspaceMatch::Namesake),
            ("C:\\Users\\Ada\\parser", WorkspaceMatch::Namesake),
            ("/home/ada/parser2", WorkspaceMatch::Different),
            ("", WorkspaceMatch::Unknown),
        ] {
            assert_eq!(standpoint(workspace).workspace_match, expected, "{workspace}");
        }
        let linked = Standpoint::new(
            &["/real/parser".to_owned()],
            &["/link/parser".to_owned(), "/real/parser".to_owned()],
        );
        assert_eq!(linked.workspace_match, WorkspaceMatch::Same);
        assert_eq!(linked.in_repository("/link/parser/a.rs").as_deref(), Some("a.rs"));
    }

    #[test]
    fn paths_from_every_store_become_paths_in_the_repository() {
        for (workspace, path, expected) in [
            ("/home/ada/parser", "/home/ada/parser/src/lib.rs", Some("src/lib.rs")),
            ("/home/ada/parser", "src/lib.rs", Some("src/lib.rs")),
            ("/home/ada/parser", "./src/../src/lib.rs", Some("src/lib.rs")),
            ("/home/ada/parser", "/tmp/parser-fix/src/lib.rs", Some("src/lib.rs")),
            ("/home/ada/parser", "file:///home/ada/parser/a%20b.rs", Some("a b.rs")),
            ("/home/ada/parser", "/etc/passwd", None),
            ("/home/ada/parser", "../other/lib.rs", None),
            ("/home/ada/parser", "/home/ada/parser", None),
            ("/home/ada/parser/src", "lib.rs", Some("src/lib.rs")),
            ("/home/ada", "parser/src/lib.rs", None),
            ("/home/ada", "/home/ada/parser/src/lib.rs", Some("src/lib.rs")),
            ("c:\\work\\parser", "C:\\work\\parser\\src\\lib.rs", Some("src/lib.rs")),
            ("/c:/work/parser", "src\\lib.rs", Some("src/lib.rs")),
            ("vscode-remote://wsl%2Bubuntu/srv/parser", "/srv/parser/a.rs", Some("a.rs")),
            ("", "src/lib.rs", Some("src/lib.rs")),
            ("", "/somewhere/else.rs", None),
        ] {
            let found = standpoint(workspace).in_repository(path);
            assert_eq!(found.as_deref(), expected, "{path} of {workspace}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_out_of_the_repository(workspace in "[a-c/.:\\\\%2]{0,12}", path in "[a-c/.:\\\\%2]{0,16}") {
            let found = Standpoint::new(&["/a/b".to_owned()], &[workspace]).in_repository(&path);
            if let Some(found) = found {
                prop_assert!(!found.is_empty() && !found.starts_with('/'));
                prop_assert!(found.split('/').all(|part| !matches!(part, "" | "." | "..")));
            }
        }
    }
}
