//! What opens doors for the agent: its login, keys and named secrets. None of it is written down.

use std::path::PathBuf;

use cursor_home::CursorRoots;
use run_protocol::{AgentKind, AgentProgram, ExitCode, NetworkMode};
use run_shim::ShimEnvironment;
use sandbox_plan::{Confinement, Profile};

use super::Admission;
use super::host_proxy::host_proxy;
use crate::command_error::CommandError;
use crate::host::environment::Environment;
use crate::host::login_file;
use crate::request::named_secret::{self, LOGIN_KEYS, NamedSecret};

/// What the simulated agent takes for a login. Long and odd, so that it is no part of any text and redacting it harms none.
pub(crate) const SIMULATED_KEY: &str = "simulated-key-that-opens-nothing";

/// Whether the user logs in with a key. Keys reach the agent through the shim's environment and are never written down.
pub fn has_key(environment: &Environment) -> bool {
    LOGIN_KEYS.iter().any(|name| environment.variable(name).is_some())
}

impl Admission<'_, '_> {
    pub(super) fn secrets(&self) -> Result<Vec<NamedSecret>, CommandError> {
        named_secret::read_all(&self.asked.secret, &self.host.environment)
    }

    /// The names of the secrets that it has, and of those that the run before had.
    pub(super) fn secret_names(&self) -> Result<Vec<String>, CommandError> {
        let mut names = self.before.as_ref().map_or_else(Vec::new, |before| before.secrets.clone());
        let given = self.secrets()?.into_iter().map(|secret| secret.name);
        names.extend(given.filter(|name| !names.contains(name)).collect::<Vec<_>>());
        Ok(names)
    }

    pub(super) fn shim_environment(
        &self,
        agent: &AgentProgram,
        roots: &CursorRoots,
        profile: &Profile,
    ) -> Result<ShimEnvironment, CommandError> {
        let environment = &self.host.environment;
        let named = self.secrets()?;
        let mut secrets: Vec<(String, String)> =
            named.into_iter().map(|secret| (secret.name, secret.value)).collect();
        for name in LOGIN_KEYS {
            let is_named = secrets.iter().any(|(named, _)| named == name);
            let Some(value) = environment.variable(name).filter(|_| !is_named) else { continue };
            let value = value.to_str().ok_or_else(|| {
                CommandError::new(ExitCode::Usage, format!("`{name}` is not UTF-8"))
            })?;
            secrets.push((name.to_owned(), value.to_owned()));
        }
        if !secrets.iter().any(|(name, _)| LOGIN_KEYS.contains(&name.as_str())) {
            match agent.kind {
                AgentKind::Simulated => {
                    secrets.push(("CURSOR_API_KEY".to_owned(), SIMULATED_KEY.to_owned()));
                }
                AgentKind::Cursor if self.login_file(agent, roots)?.is_some() => {}
                // Outside there may be a keychain, of which only the agent knows.
                AgentKind::Cursor if profile.confinement() == Confinement::None => {}
                AgentKind::Cursor => {
                    return Err(CommandError::new(
                        ExitCode::AuthenticationMissing,
                        "cursor-agent is not logged in",
                    )
                    .hint("log in with `cursor-agent login`, or set CURSOR_API_KEY"));
                }
            }
        }
        let log_filter = environment.variable("RUST_LOG").and_then(|filter| filter.to_str());
        // Whoever has the host's network finds the way alone.
        let proxy = match self.network_mode(profile) {
            NetworkMode::Host | NetworkMode::None => None,
            NetworkMode::Allowlist => host_proxy(environment)?.map(|proxy| proxy.address),
        };
        Ok(ShimEnvironment { secrets, proxy, log_filter: log_filter.map(ToOwned::to_owned) })
    }

    /// The login to use: a key is preferred, and the simulated agent has its own.
    pub(super) fn login_file(
        &self,
        agent: &AgentProgram,
        roots: &CursorRoots,
    ) -> Result<Option<PathBuf>, CommandError> {
        let is_named = |secret: &NamedSecret| LOGIN_KEYS.contains(&secret.name.as_str());
        let has_key = has_key(&self.host.environment) || self.secrets()?.iter().any(is_named);
        if agent.kind == AgentKind::Simulated || has_key {
            return Ok(None);
        }
        Ok(login_file::find(roots))
    }
}
