//! The MCP servers that an agent gets: the shim's own, and those that the user chose.
//!
//! ```text
//!   the shim's own ───────────────────────────────┐
//!   the user's file (--user-mcp, --mcp NAME) ─────┤
//!   the repository's file (--mcp-from-repo NAME) ─┼─► known ─► without those switched off ─► in force ─► mcp.json
//!   `caretaker mcp enable` ───────────────────────┘              └ `caretaker mcp disable`
//! ```
//!
//! **Invariant:** the agent gets a repository's server only with the definition that the user allowed. If the
//! definition changed, Caretaker refuses the run.

mod change;
mod reach;
mod repository;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self};
use std::path::{Path, PathBuf};

use cursor_home::{
    DisabledServers, McpFileError, McpServer, McpServers, Merged, NameClash, NameTaken, ToolBudget,
    UserServers,
};
use ground::plain_file::read_whole;
use run_journal::{RunDirectory, StateRoot};
use run_protocol::{McpChoice, RunSpec, UserMcpFiles};
use serde_json::Value;
use uuid::Uuid;

pub(crate) use self::change::NotChanged;
pub use self::change::{ServersNotChanged, change_servers_of_session};
pub(crate) use self::reach::Reach;
pub use self::reach::Unreachable;
pub use self::repository::{repository_server, repository_servers};
use crate::agent_tools::mcp_server;
use crate::preparation::private_roots::{SERVER, SOCKET_VARIABLE, SOCKETS_INSIDE, mcp_json_in};
use crate::session::session_record::read_session_record;

/// The largest MCP file. Real ones are a few kilobytes.
const LARGEST_FILE: u64 = 1024 * 1024;

/// More generations than any configuration allows.
const MOST_GENERATIONS: usize = 64;

/// The argument that makes Caretaker's program act as the relay for the agent's MCP server.
pub const RELAY_ENTRY: &str = "mcp-relay";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserMcpError {
    #[error("the MCP file `{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the MCP file `{}` cannot be used", path.display())]
    Unusable { path: PathBuf, source: McpFileError },
    #[error("the MCP server `{0}` is switched off for this workspace")]
    SwitchedOff(String),
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    #[error("the definition of the repository's MCP server `{0}` changed after you allowed it")]
    Changed(String),
    #[error("the agent cannot reach the MCP server `{}`: {}", .0.name, .0.why)]
    Unreachable(Unreachable),
    #[error("the MCP server `{0}` was switched off for this session")]
    OffForSession(String),
}

impl UserMcpError {
    /// Suggests one thing to try.
    pub fn hint(&self) -> String {
        match self {
            Self::SwitchedOff(name) => {
                format!("switch it on with `cursor-agent mcp enable {name}`")
            }
            Self::NameTaken(_) => "give the server another name in its file".to_owned(),
            Self::Changed(name) => {
                format!(
                    "look at it with `caretaker mcp show`, then allow it again: --mcp-from-repo {name}"
                )
            }
            Self::Unreachable(unreachable) => unreachable.hint(),
            Self::OffForSession(name) => {
                format!("switch it on again: caretaker mcp enable RUN {name}")
            }
            Self::Read { .. } | Self::Unusable { .. } => {
                "repair the file, name only the servers you need with --mcp NAME, or do without: --no-user-mcp"
                    .to_owned()
            }
        }
    }
}

/// The servers that the agent gets in addition to the shim's own, and those that Caretaker left out.
#[derive(Debug)]
pub struct UserMcpReport {
    /// The user's own servers that the agent gets.
    pub added: Vec<String>,
    /// The repository's servers that the agent gets, with their definitions for people to read.
    pub of_repository: Vec<(String, Value)>,
    /// Left out because another server has the same name.
    pub clashes: Vec<NameClash>,
    /// Left out because the user switched them off for this project.
    pub switched_off: Vec<String>,
    /// Left out because the user switched them off for this session.
    pub off_for_session: Vec<String>,
    /// The agent gets these, but the run's network cannot reach them.
    pub unreachable: Vec<Unreachable>,
    /// The total number of tools from all servers, compared with Cursor's maximum.
    pub budget: ToolBudget,
}

/// All servers that a run knows, and which of them its agent gets.
#[derive(Debug, Clone)]
pub(crate) struct RunServers {
    known: McpServers,
    choice: McpChoice,
    /// The servers from the user's file that the user named.
    named: Vec<String>,
    /// The repository's servers.
    of_repository: Vec<String>,
    clashes: Vec<NameClash>,
    switched_off: Vec<String>,
}

impl RunServers {
    /// Reads and checks all of a run's servers. `relay` is the program of the shim's own server.
    pub(crate) fn gather(
        relay: &Path,
        spec: &RunSpec,
        choice: McpChoice,
    ) -> Result<Self, UserMcpError> {
        let mut servers = Self {
            known: own(relay),
            named: Vec::new(),
            of_repository: spec.repository_mcp.iter().map(|server| server.name.clone()).collect(),
            clashes: Vec::new(),
            switched_off: Vec::new(),
            choice,
        };
        if let Some(files) = &spec.user_mcp {
            servers.add_users(files)?;
        }
        for allowed in &spec.repository_mcp {
            match repository::allowed(Path::new(&spec.workspace), allowed) {
                Ok(server) => servers.known.add(&allowed.name, server)?,
                // The agent does not get this server, so its definition does not matter.
                Err(_) if servers.choice.off.contains(&allowed.name) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(on) = servers.choice.on.clone() {
            servers.add_users(&on)?;
        }
        Ok(servers)
    }

    /// Adds the servers from the user's file that are not known yet.
    fn add_users(&mut self, files: &UserMcpFiles) -> Result<(), UserMcpError> {
        if files.only.iter().flatten().any(|name| name == SERVER) {
            return Err(NameTaken { by: SERVER.to_owned() }.into());
        }
        let is_wanted =
            |name: &&String| !self.known.contains(name) && !self.choice.off.contains(name);
        let wanted = files
            .only
            .as_ref()
            .map(|only| only.iter().filter(is_wanted).cloned().collect::<Vec<String>>());
        self.named.extend(files.only.iter().flatten().cloned());
        let Merged { servers, clashes, switched_off } =
            merged(&self.known, files, wanted.as_deref())?;
        if wanted.is_some() {
            // The user named these servers, so Caretaker must not leave one out silently.
            if let Some(clash) = clashes.into_iter().next() {
                return Err(NameTaken { by: clash.ours }.into());
            }
            if let Some(name) = switched_off.into_iter().next() {
                return Err(UserMcpError::SwitchedOff(name));
            }
        } else {
            self.clashes.extend(clashes);
            self.switched_off.extend(switched_off);
        }
        self.known = servers;
        Ok(())
    }

    /// Returns the servers that the agent gets.
    pub(crate) fn in_force(&self) -> McpServers {
        self.known.without(&self.choice.off)
    }

    pub(crate) fn choice(&self) -> &McpChoice {
        &self.choice
    }

    /// Returns the secrets of all servers, even of those switched off, because the agent may have read them earlier.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.known.iter().flat_map(|(_, server)| server.secrets())
    }

    /// Returns the servers in force that the user named.
    fn by_name(&self) -> impl Iterator<Item = (&str, &McpServer)> {
        let is_named = |name: &str| {
            self.named.iter().chain(&self.of_repository).any(|named| named == name)
                && !self.choice.off.iter().any(|off| off == name)
        };
        self.known.iter().filter(move |(name, _)| is_named(name))
    }
}

/// Reads and checks the run's servers other than the shim's own, if it has any.
pub fn user_mcp(state: &StateRoot, spec: &RunSpec) -> Result<Option<UserMcpReport>, UserMcpError> {
    let choice = choice_of(state, spec);
    if spec.user_mcp.is_none() && spec.repository_mcp.is_empty() && choice.is_empty() {
        return Ok(None);
    }
    // The command of the shim's own server does not matter here.
    let servers = RunServers::gather(Path::new("caretaker"), spec, choice)?;
    let reach = Reach::of_spec(spec, &servers);
    let unreachable = reach.check(&servers)?;
    let known = BTreeMap::from([(SERVER.to_owned(), mcp_server::n_tools())]);
    let in_force = servers.in_force();
    let (of_repository, added): (Vec<_>, Vec<_>) = in_force
        .iter()
        .filter(|(name, _)| *name != SERVER)
        .partition(|(name, _)| servers.of_repository.iter().any(|known| known == name));
    let shown = |(name, server): (&str, &McpServer)| (name.to_owned(), server.shown());
    Ok(Some(UserMcpReport {
        added: added.into_iter().map(|(name, _)| name.to_owned()).collect(),
        of_repository: of_repository.into_iter().map(shown).collect(),
        budget: ToolBudget::of(&in_force, &known),
        off_for_session: servers.choice.off.clone(),
        clashes: servers.clashes,
        switched_off: servers.switched_off,
        unreachable,
    }))
}

/// A run's servers, as its `mcp.json` lists them.
#[derive(Debug)]
pub struct ShownServers {
    pub servers: McpServers,
    /// The servers that are off for this session.
    pub off: Vec<String>,
    /// True if this is a running agent's file. False if it shows what the next run would get.
    pub is_live: bool,
}

/// Returns the servers in a running agent's `mcp.json`, or else those that the session's next run would start with.
pub fn servers_of_run(state: &StateRoot, spec: &RunSpec) -> Result<ShownServers, UserMcpError> {
    let choice = choice_of(state, spec);
    let path = mcp_json_in(&state.run_dir(&spec.run));
    let off = choice.off.clone();
    match read(&path) {
        Ok(content) => {
            let unusable = |source| UserMcpError::Unusable { path: path.clone(), source };
            let file = UserServers::parse(&content).map_err(unusable)?;
            let merged = McpServers::default().merge_user(file, &DisabledServers::default());
            Ok(ShownServers { servers: merged.map_err(unusable)?.servers, off, is_live: true })
        }
        Err(_) => {
            let relay = std::env::current_exe().unwrap_or_else(|_| "caretaker".into());
            let servers = RunServers::gather(&relay, spec, choice)?;
            Ok(ShownServers { servers: servers.in_force(), off, is_live: false })
        }
    }
}

/// Returns the user's changes to the session's servers. A server that is off for a parent's session is also off for its
/// children.
pub fn choice_of(state: &StateRoot, spec: &RunSpec) -> McpChoice {
    let choice = |session: &Uuid| read_session_record(state, session).map(|record| record.mcp);
    let mut own = choice(&spec.session).unwrap_or_else(|| spec.mcp_choice.clone());
    let mut lineage = spec.lineage.clone();
    for _ in 0..MOST_GENERATIONS {
        let Some(parent) = lineage else { break };
        let off = choice(&parent.session).unwrap_or_default().off.into_iter();
        let more: Vec<String> = off.filter(|name| !own.off.contains(name)).collect();
        own.off.extend(more);
        let parent = RunDirectory::open(state, parent.run).ok();
        lineage = parent.and_then(|parent| parent.spec().ok()?.lineage);
    }
    own
}

/// Returns only the shim's own server.
pub(crate) fn own(relay: &Path) -> McpServers {
    let relay = relay.to_string_lossy();
    let socket = format!("{SOCKETS_INSIDE}/mcp.sock");
    let server = McpServer::stdio(&relay, [RELAY_ENTRY], [(SOCKET_VARIABLE, socket.as_str())]);
    let mut servers = McpServers::default();
    // This is the first server, so its name is free.
    servers.add(SERVER, server).ok();
    servers
}

/// Returns the names of all servers in the user's file, switched on or off.
pub fn names_in(files: &UserMcpFiles) -> Result<Vec<String>, UserMcpError> {
    let path = files.servers.0.as_path();
    let content = read(path).map_err(|source| UserMcpError::Read { path: path.into(), source })?;
    match UserServers::parse(&content) {
        Ok(user) => Ok(user.names().map(str::to_owned).collect()),
        Err(source) => Err(UserMcpError::Unusable { path: path.into(), source }),
    }
}

fn merged(
    known: &McpServers,
    files: &UserMcpFiles,
    only: Option<&[String]>,
) -> Result<Merged, UserMcpError> {
    let path = files.servers.0.as_path();
    let unusable = |path: &Path, source| UserMcpError::Unusable { path: path.to_owned(), source };
    let content = read(path).map_err(|source| UserMcpError::Read { path: path.into(), source })?;
    let mut user = UserServers::parse(&content).map_err(|source| unusable(path, source))?;
    if let Some(only) = only {
        user = user.only(only).map_err(|source| unusable(path, source))?;
    }
    let mut disabled = DisabledServers::default();
    for file in &files.disabled {
        let content = match read(&file.0) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(UserMcpError::Read { path: file.0.clone(), source }),
        };
        let more = DisabledServers::parse(&content).map_err(|source| unusable(&file.0, source))?;
        disabled = disabled.and(more);
    }
    known.clone().merge_user(user, &disabled).map_err(|source| unusable(path, source))
}

/// Reads one of the user's files, through links if needed. It never blocks, and it reads a bounded number of bytes.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Check before opening, because opening a FIFO would block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    read_whole(File::open(path)?, LARGEST_FILE)
}

#[cfg(test)]
mod tests;
