use std::fs;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

/// A repository `main` with a linked worktree `tree`, written by hand in git's format.
struct Host {
    directory: TempDir,
    root: PathBuf,
    home: PathBuf,
}

fn host() -> Host {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    let own = root.join("main/.git/worktrees/tree");
    fs::create_dir_all(&own).unwrap();
    fs::create_dir(root.join("tree")).unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    fs::write(own.join("gitdir"), format!("{}\n", root.join("tree/.git").display())).unwrap();
    fs::write(root.join("tree/.git"), format!("gitdir: {}\n", own.display())).unwrap();
    Host { directory, home: root.join("home"), root }
}

impl Host {
    fn inspect(&self, workspace: &str) -> GitLayout {
        self.inspect_as(rustix::process::getuid().as_raw(), workspace)
    }

    fn inspect_as(&self, uid: u32, workspace: &str) -> GitLayout {
        let workspace = self.root.join(workspace);
        let surroundings = Surroundings { uid, home: &self.home, ours: &[] };
        let tree = Tree::open(&workspace).unwrap();
        GitLayout::inspect(&tree, surroundings).unwrap()
    }

    fn hidden_because(&self, workspace: &str) -> String {
        match self.inspect(workspace) {
            GitLayout::Hidden { reason } => reason,
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, path: &str, contents: &str) {
        fs::write(self.root.join(path), contents).unwrap();
    }

    fn worktree(&self) -> GitLayout {
        let common_dir = self.root.join("main/.git");
        GitLayout::Worktree { git_dir: common_dir.join("worktrees/tree"), common_dir }
    }
}

#[test]
fn repositories_and_their_worktrees_are_told_apart() {
    let host = host();
    assert_eq!(host.inspect("main"), GitLayout::Directory);
    assert_eq!(host.inspect("tree"), host.worktree());
    fs::create_dir(host.root.join("plain")).unwrap();
    assert_eq!(host.inspect("plain"), GitLayout::None);
}

#[test]
fn relative_paths_are_followed_by_name() {
    let host = host();
    host.write("tree/.git", "gitdir: ../main/.git/worktrees/tree\n");
    host.write("main/.git/worktrees/tree/gitdir", "../../../../tree/.git\n");
    assert_eq!(host.inspect("tree"), host.worktree());
}

#[test]
fn a_git_directory_elsewhere_in_the_workspace_is_known() {
    let host = host();
    host.write("tree/.git", "gitdir: a/../real\n");
    assert_eq!(
        host.inspect("tree"),
        GitLayout::InWorkspace { git_dir: host.root.join("tree/real") }
    );
}

#[test]
fn a_repository_that_does_not_know_the_workspace_is_not_shown() {
    let host = host();
    // A hostile workspace that names the worktree of another workspace, and one that names a whole repository.
    fs::create_dir(host.root.join("hostile")).unwrap();
    fs::copy(host.root.join("tree/.git"), host.root.join("hostile/.git")).unwrap();
    assert!(host.hidden_because("hostile").contains("belongs to another worktree"));
    host.write("hostile/.git", &format!("gitdir: {}\n", host.root.join("main/.git").display()));
    assert!(host.hidden_because("hostile").contains("cannot be read"));
}

#[test]
fn a_worktree_that_lies_about_its_repository_is_not_shown() {
    let host = host();
    // The workspace's owner controls all of it, but the common directory is the home.
    fs::create_dir_all(host.home.join("worktrees/tree")).unwrap();
    let own = host.home.join("worktrees/tree");
    fs::write(own.join("commondir"), "../..").unwrap();
    fs::write(own.join("gitdir"), host.root.join("tree/.git").to_str().unwrap()).unwrap();
    host.write("tree/.git", &format!("gitdir: {}\n", own.display()));
    assert!(host.hidden_because("tree").contains("contains"));
    fs::write(own.join("commondir"), host.root.join("main/.git").to_str().unwrap()).unwrap();
    assert!(host.hidden_because("tree").contains("not where git keeps a worktree"));
}

#[test]
fn symlinks_strangers_and_nonsense_are_not_shown() {
    let host = host();
    symlink(host.root.join("main"), host.root.join("link")).unwrap();
    let through = host.root.join("link/.git/worktrees/tree");
    host.write("tree/.git", &format!("gitdir: {}\n", through.display()));
    assert!(host.hidden_because("tree").contains("without following symlinks"));
    for nonsense in [
        "",
        "gitdir:",
        "gitdir: \n",
        "gitdir: a\0b",
        "nothing\n",
        "gitdir: .",
        "gitdir: .cursor/git",
    ] {
        host.write("tree/.git", nonsense);
        host.hidden_because("tree");
    }
    host.write("tree/.git", &"x".repeat(100_000));
    host.hidden_because("tree");

    let host = self::host();
    let uid = rustix::process::getuid().as_raw();
    let stranger = host.inspect_as(uid + 1, "tree");
    assert!(matches!(stranger, GitLayout::Hidden { reason } if reason.contains("belongs to user")));
    assert!(host.directory.path().exists());
}
