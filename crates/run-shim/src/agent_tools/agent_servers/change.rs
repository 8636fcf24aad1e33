//! Switches servers on and off, for sessions with a running agent and for idle sessions.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use run_journal::StateRoot;
use run_protocol::{McpChoice, RunSpec, ServerChange, UserMcpFiles};

use super::{RunServers, UserMcpError, choice_of};
use crate::preparation::private_roots::SERVER;
use crate::session::session_record;

/// Why a change is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotChanged {
    #[error("the session has no MCP server `{name}`; it has {}", known.join(", "))]
    Unknown { name: String, known: Vec<String> },
    #[error("`{0}` cannot be switched on and off at the same time")]
    Both(String),
    #[error(transparent)]
    User(#[from] UserMcpError),
}

/// Why the servers of an idle session did not change.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ServersNotChanged(#[from] Cause);

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Refused(#[from] NotChanged),
    #[error("cannot write the session's record")]
    Record(#[source] io::Error),
}

impl RunServers {
    /// Returns the servers after a change. Writes nothing.
    pub(crate) fn changed(&self, change: &ServerChange) -> Result<Self, NotChanged> {
        let mut after = self.clone();
        for name in &change.enable {
            if !after.known.contains(name) {
                after.switch_on(name, change.user.as_ref())?;
            }
        }
        after.choice = changed_choice(&after.choice, change, &self.known.names())?;
        Ok(after)
    }

    /// Adds a server from the user's file that the run does not have yet.
    fn switch_on(&mut self, name: &str, user: Option<&UserMcpFiles>) -> Result<(), NotChanged> {
        let unknown = || NotChanged::Unknown { name: name.to_owned(), known: self.known.names() };
        let user = user.ok_or_else(unknown)?;
        let added = self.choice.on.iter().flat_map(|on| on.only.iter().flatten());
        let mut only: Vec<String> = added.filter(|added| *added != name).cloned().collect();
        only.push(name.to_owned());
        let files = UserMcpFiles { only: Some(only), ..user.clone() };
        self.choice.off.retain(|off| off != name);
        self.add_users(&files)?;
        self.choice.on = Some(files);
        Ok(())
    }
}

/// Changes the list of servers that are off. A server stays off until the user switches it on again.
fn changed_choice(
    choice: &McpChoice,
    change: &ServerChange,
    known: &[String],
) -> Result<McpChoice, NotChanged> {
    if let Some(both) = change.enable.iter().find(|name| change.disable.contains(name)) {
        return Err(NotChanged::Both(both.clone()));
    }
    let is_known = |name: &&String| known.contains(name) || choice.off.contains(name);
    if let Some(name) = change.disable.iter().find(|name| !is_known(name)) {
        return Err(NotChanged::Unknown { name: name.clone(), known: known.to_owned() });
    }
    let off: BTreeSet<&String> = choice.off.iter().chain(&change.disable).collect();
    let off = off.into_iter().filter(|name| !change.enable.contains(name)).cloned().collect();
    Ok(McpChoice { off, on: choice.on.clone() })
}

/// Changes the servers of a session whose last run was `spec`. Returns the next run's servers, if they are known. The
/// caller holds the session's lease.
pub fn change_servers_of_session(
    state: &StateRoot,
    spec: &RunSpec,
    change: &ServerChange,
) -> Result<Option<Vec<String>>, ServersNotChanged> {
    let choice = choice_of(state, spec);
    let gathered = RunServers::gather(Path::new(SERVER), spec, choice.clone());
    let (choice, servers) = match gathered {
        Ok(servers) => {
            let after = servers.changed(change).map_err(Cause::Refused)?;
            (after.choice.clone(), Some(after.in_force().names()))
        }
        // The user must be able to switch a server off even if Caretaker cannot use one of the files.
        Err(_) if change.enable.is_empty() => {
            let after = changed_choice(&choice, change, &named_in(spec, &choice));
            (after.map_err(Cause::Refused)?, None)
        }
        Err(error) => return Err(Cause::Refused(error.into()).into()),
    };
    session_record::write_choice(state, &spec.session, choice).map_err(Cause::Record)?;
    Ok(servers)
}

/// Returns the servers that are known without any file.
fn named_in(spec: &RunSpec, choice: &McpChoice) -> Vec<String> {
    let of_user = spec.user_mcp.iter().chain(&choice.on).flat_map(|files| files.only.iter());
    let of_repository = spec.repository_mcp.iter().map(|server| server.name.clone());
    let ours = std::iter::once(SERVER.to_owned());
    ours.chain(of_user.flatten().cloned()).chain(of_repository).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KNOWN: [&str; 4] = ["caretaker", "notes", "slack", "docs"];

    fn change(enable: &[&str], disable: &[&str]) -> ServerChange {
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        ServerChange { enable: owned(enable), disable: owned(disable), user: None }
    }

    fn known() -> Vec<String> {
        KNOWN.map(str::to_owned).to_vec()
    }

    proptest! {
        #[test]
        fn the_last_change_to_a_server_counts(
            changes in proptest::collection::vec((0..KNOWN.len(), any::<bool>()), 0..20),
        ) {
            let mut choice = McpChoice::default();
            let mut off = BTreeSet::new();
            for (number, is_on) in changes {
                let name = KNOWN[number];
                let change = if is_on { change(&[name], &[]) } else { change(&[], &[name]) };
                choice = changed_choice(&choice, &change, &known()).unwrap();
                // Repeating the request changes nothing.
                prop_assert_eq!(&changed_choice(&choice, &change, &known()).unwrap(), &choice);
                if is_on { off.remove(name) } else { off.insert(name) };
            }
            prop_assert_eq!(choice.off, off.into_iter().map(str::to_owned).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_unknown_name_changes_nothing() {
        let refused = changed_choice(&McpChoice::default(), &change(&[], &["Notes"]), &known());
        assert_eq!(
            refused.unwrap_err().to_string(),
            "the session has no MCP server `Notes`; it has caretaker, notes, slack, docs"
        );
        let both = changed_choice(&McpChoice::default(), &change(&["docs"], &["docs"]), &known());
        assert!(matches!(both, Err(NotChanged::Both(_))));
    }
}
