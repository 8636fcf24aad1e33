//! The places on this host where Cursor may keep conversations.

use std::fs;
use std::path::{Path, PathBuf};

use cursor_stores::StorePlaces;

use crate::command_error::CommandError;
use crate::host::Host;

/// All known places. Most of them do not exist on a given machine.
pub fn store_places(host: &Host) -> Result<StorePlaces, CommandError> {
    let roots = host.environment.cursor_roots()?;
    let dot_cursor = roots.dot_cursor();
    let mut places = StorePlaces {
        chats: vec![roots.chats(), dot_cursor.join("chats")],
        acp_sessions: roots.acp_sessions(),
        projects: vec![roots.projects(), dot_cursor.join("projects")],
        cursor_user_dirs: cursor_user_dirs(host),
        others: other_places(&dot_cursor),
        sdk_stores: Vec::new(),
        exports: Vec::new(),
    };
    // Most hosts have none.
    places.chats.extend(Some(host.state.chats()).filter(|chats| !directories_in(chats).is_empty()));
    places.projects.extend(private_projects(&host.places.state));
    for list in [&mut places.chats, &mut places.acp_sessions, &mut places.projects] {
        remove_repeats(list);
    }
    remove_repeats(&mut places.cursor_user_dirs);
    Ok(places)
}

/// Files that look like a store but are not.
fn other_places(dot_cursor: &Path) -> Vec<(PathBuf, String)> {
    [
        (
            "ai-tracking/ai-code-tracking.db",
            "who wrote which lines of code, and titles of conversations",
        ),
        ("prompt_history.json", "the last prompts, without their conversations"),
        ("plans", "plans that conversations led to"),
        ("worktrees", "copies of repositories"),
    ]
    .map(|(name, what)| (dot_cursor.join(name), what.to_owned()))
    .into()
}

/// The data roots of sandboxed sessions: their transcripts are there, not in the user's home.
fn private_projects(state: &Path) -> Vec<PathBuf> {
    directories_in(&state.join("sessions"))
        .into_iter()
        .map(|session| session.join("data/projects"))
        .filter(|projects| projects.is_dir())
        .collect()
}

fn cursor_user_dirs(host: &Host) -> Vec<PathBuf> {
    let home = &host.environment.home;
    let config = host
        .environment
        .absolute_path("XDG_CONFIG_HOME")
        .map_or_else(|| home.join(".config"), Path::to_path_buf);
    let mut dirs = vec![
        config.join("Cursor/User"),
        home.join(".config/Cursor/User"),
        home.join("Library/Application Support/Cursor/User"),
        // The IDE runs on another machine, but its server runs here.
        home.join(".cursor-server/data/User"),
    ];
    // In WSL the IDE is a Windows program.
    if host.environment.variable("WSL_DISTRO_NAME").is_some() {
        for drive in directories_in(Path::new("/mnt")) {
            for user in directories_in(&drive.join("Users")) {
                dirs.push(user.join("AppData/Roaming/Cursor/User"));
            }
        }
    }
    dirs
}

fn directories_in(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut directories: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    directories.sort();
    directories
}

fn remove_repeats(paths: &mut Vec<PathBuf>) {
    // Compare the real paths: one path may be a link to another.
    let mut seen = Vec::new();
    paths.retain(|path| {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let is_new = !seen.contains(&real);
        seen.push(real);
        is_new
    });
}
