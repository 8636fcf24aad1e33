//! The user's own rules for the agent: those that a sandboxed run gets, and those that do not apply in a sandbox.
//!
//! ```text
//!   cli-config.json of the user ───────────────┐
//!   .cursor/cli.json of the project (deny) ────┼─► present rules ─► continued: never weaker ─► policy of the spec
//!   /etc/cursor/hooks.json (its programs) ─────┤
//!   ~/.cursor/hooks.json, rules … (only names) ┘
//! ```
//!
//! **Invariant:** if rules cannot be read, nothing runs, because Caretaker cannot tell what they forbid.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cursor_home::{RulesError, has_hooks, hook_programs, project_deny_rules, user_policy};
use ground::plain_file::read_at_most;
use run_protocol::{AgentPolicy, BytesPath, ExitCode};
use sandbox_plan::Profile;

use crate::command_error::{CommandError, OrFail};
use crate::words::talk::Remark;

/// Far more than a real file has. The agent keeps caches in its own.
const LARGEST: u64 = 16 << 20;

/// The administrator's hooks. The sandbox shows their directory.
const ENTERPRISE_HOOKS: &str = "/etc/cursor/hooks.json";

const HOOKS: &str = "~/.cursor/hooks.json";
/// Files that instruct or restrict the user's own agent. The private home does not have them.
const NOT_IN_THE_SANDBOX: [&str; 8] = [
    HOOKS,
    "~/.cursor/permissions.json",
    "~/.cursor/sandbox.json",
    "~/.cursor/rules",
    "~/.cursor/skills",
    "~/.cursor/agents",
    "~/.cursor/commands",
    "~/.cursor/plugins",
];

/// Reads the rules that apply on the host. `projects`: the directories that may have a `.cursor/cli.json`.
pub(crate) fn present(
    config_root: &Path,
    home: &Path,
    projects: &[PathBuf],
) -> Result<AgentPolicy, CommandError> {
    let file = config_root.join("cli-config.json");
    let mut policy = rules(&file, user_policy)?.unwrap_or_default();
    for project in projects {
        let file = project.join(".cursor/cli.json");
        join(&mut policy.deny, &rules(&file, project_deny_rules)?.unwrap_or_default());
    }
    let hooks = read(Path::new(ENTERPRISE_HOOKS)).ok().flatten().unwrap_or_default();
    let programs = hook_programs(&hooks).into_iter().filter(|path| path.is_file());
    policy.hook_programs = programs.map(BytesPath::from).collect();
    let is_there = |name: &&&str| {
        let path = home.join(name.trim_start_matches("~/"));
        match **name {
            // A file that cannot be read may have hooks.
            HOOKS => read(&path).map_or(true, |content| content.is_some_and(|it| has_hooks(&it))),
            _ => path.symlink_metadata().is_ok(),
        }
    };
    let files = NOT_IN_THE_SANDBOX.iter().filter(is_there).map(ToString::to_string);
    policy.left_out.extend(files);
    Ok(policy)
}

/// The directories whose `.cursor/cli.json` the agent would read: the workspace, and those above it in its repository.
/// The checkout of a worktree may have a file that git does not track.
pub(crate) fn projects(workspace: &Path, checkout: Option<&Path>) -> Vec<PathBuf> {
    let is_top = |directory: &&Path| directory.join(".git").exists();
    let top = workspace.ancestors().find(is_top).unwrap_or(workspace);
    let inside = workspace.ancestors().take_while(|directory| directory.starts_with(top));
    inside.chain(checkout).map(Path::to_owned).collect()
}

/// The rules of a run that continues or belongs to another run: never weaker than that run's rules, and never weaker
/// than the present ones. The model stays.
pub(crate) fn continued(present: AgentPolicy, before: Option<&AgentPolicy>) -> AgentPolicy {
    let Some(before) = before else { return present };
    let mut policy = AgentPolicy { model: before.model.clone(), ..present };
    join(&mut policy.deny, &before.deny);
    policy.allow.retain(|rule| before.allow.contains(rule));
    policy
}

/// Refuses the run if its profile demands the user's hooks.
pub(crate) fn check(policy: Option<&AgentPolicy>, profile: &Profile) -> Result<(), CommandError> {
    if !policy.is_some_and(has_hooks_left_out) || !profile.refuses_hooks() {
        return Ok(());
    }
    let what = format!(
        "your hooks in {HOOKS} do not apply in the sandbox, and the profile `{}` refuses that",
        profile.name()
    );
    Err(CommandError::new(ExitCode::Usage, what)
        .hint(
            "use another profile, such as --profile default; or move the hooks to /etc/cursor, which the sandbox \
             shows",
        ))
}

/// Says which of the user's rules do not apply, and which rules of the earlier run still do.
pub(crate) fn remarks(policy: &AgentPolicy, present: &AgentPolicy) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if has_hooks_left_out(policy) {
        remarks.push(Remark::Warning(format!("your hooks in {HOOKS} do not apply in the sandbox")));
    }
    let old = policy.deny.iter().filter(|rule| !present.deny.contains(rule));
    let old: Vec<&str> = old.map(String::as_str).collect();
    if !old.is_empty() {
        remarks.push(Remark::Note(format!(
            "your files no longer deny {}, but the last run of this session did, so this run does; to drop that: \
             --widen permissions",
            old.join(", ")
        )));
    }
    remarks
}

fn has_hooks_left_out(policy: &AgentPolicy) -> bool {
    policy.left_out.iter().any(|name| name == HOOKS)
}

fn join(rules: &mut Vec<String>, more: &[String]) {
    for rule in more {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
}

/// Reads a file with rules. `None`: there is no file.
fn rules<T>(
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T, RulesError>,
) -> Result<Option<T>, CommandError> {
    let what = || {
        format!("the rules for the agent in `{}` cannot be read, so nothing runs", path.display())
    };
    let hint = "repair the file; or move it away, if the agent should run without its rules";
    let Some(content) = read(path).or_fail_as(ExitCode::Usage, what).map_err(|it| it.hint(hint))?
    else {
        return Ok(None);
    };
    let parsed = parse(&content).or_fail_as(ExitCode::Usage, what);
    parsed.map(Some).map_err(|error| error.hint(hint))
}

/// Reads a file that may be a link: people keep their settings in a repository and link to them.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let content = fs::canonicalize(path).and_then(|physical| read_at_most(&physical, LARGEST));
    match content {
        Ok(content) => Ok(Some(content)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
#[path = "user_policy_tests.rs"]
mod tests;
