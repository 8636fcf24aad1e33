//! The demonstration, which the agent plays without a script: a short tour of the workspace that leaves a file behind.

use std::fs;
use std::path::Path;

use crate::script::{Order, Script, ScriptError};
use crate::session_store::{RememberedMessage, Role, SessionMode};
use crate::tools::ToolRequest;

const FILE: &str = "caretaker-demo.md";

/// The most entries that the demonstration's file lists.
const MOST_ENTRIES: usize = 50;

const BEGINNING: &str = "\
model-delay 120ms
pace 3ms
think There is no script, so I will look around, leave a note and check it.
";

const LOOK: &str = "\
parallel
  ls
  glob *
  todos <<END
  [x] Look around
  [>] Write the inventory
  [ ] Check it
END
end
";

const PLAN: &str = "\
plan <<END
# Leave a note

1. Write `caretaker-demo.md`.
2. List it.
3. Read it back.
END
say That is the plan; nothing was changed.
";

const CHECK: &str = "\
shell[description=\"Lists the new file\"] ls -l caretaker-demo.md
parallel
  read caretaker-demo.md
  todos <<END
  [x] Look around
  [x] Write the inventory
  [x] Check it
END
end
";

/// Returns the script for this workspace. Nothing in it needs `--force`. In plan mode the agent plans its note but does
/// not write it.
pub(super) fn script(
    workspace: &Path,
    history: &[RememberedMessage],
    mode: SessionMode,
) -> Result<Script, ScriptError> {
    let mut script = Script::parse(BEGINNING)?;
    script.orders.push(Order::Say(greeting(history)));
    script.orders.extend(Script::parse(LOOK)?.orders);
    if mode == SessionMode::Plan {
        script.orders.extend(Script::parse(PLAN)?.orders);
        return Ok(script);
    }
    let entries = entries(workspace);
    let note = ToolRequest::Write { path: FILE.into(), content: inventory(&entries) };
    script.orders.push(Order::Calls(vec![note]));
    script.orders.extend(Script::parse(CHECK)?.orders);
    script.orders.push(Order::Say(format!(
        "Done. I listed the workspace ({} entries), wrote `{FILE}`, ran `ls -l {FILE}` and read the file back.",
        entries.len()
    )));
    Ok(script)
}

fn greeting(history: &[RememberedMessage]) -> String {
    let last = history.iter().rev().find(|message| message.role == Role::User);
    match last {
        Some(message) => format!(
            "Welcome back. Before this you said: \"{}\" I will look around again.",
            message.text.trim()
        ),
        None => {
            "I am the simulated agent: no model, but real tools. I will look around.".to_owned()
        }
    }
}

/// Returns the names in the workspace, directories with a slash, without the demonstration's own file.
fn entries(workspace: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(workspace)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            format!("{}{slash}", entry.file_name().to_string_lossy())
        })
        .filter(|name| name != FILE)
        .collect();
    names.sort_unstable();
    names
}

fn inventory(entries: &[String]) -> String {
    let mut text = "# What the simulated agent found here\n\n".to_owned();
    for name in entries.iter().take(MOST_ENTRIES) {
        text.push_str(&format!("- `{name}`\n"));
    }
    match entries.len().saturating_sub(MOST_ENTRIES) {
        0 => {}
        n_more => text.push_str(&format!("- and {n_more} more\n")),
    }
    if entries.is_empty() {
        text.push_str("Nothing yet.\n");
    }
    text
}

#[cfg(test)]
#[path = "demonstration_tests.rs"]
mod tests;
