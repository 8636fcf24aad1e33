//! A run that goes on as an earlier one was started.

use run_protocol::RunSpec;

use super::host_proxy::is_proxy_variable;
use super::{Admission, refused};
use crate::command_error::CommandError;
use crate::limit_options;
use crate::run_marks;

impl Admission<'_> {
    /// Keeps of `before` whatever the options say nothing about, and nothing that belongs to its moment or its host.
    pub(super) fn as_before(
        &self,
        fresh: RunSpec,
        before: &RunSpec,
    ) -> Result<RunSpec, CommandError> {
        let options = self.options;
        let mut spec = RunSpec {
            run: fresh.run,
            created_ms: fresh.created_ms,
            name: fresh.name,
            session: fresh.session,
            session_start: fresh.session_start,
            workspace: fresh.workspace,
            worktree: fresh.worktree,
            // The host's git may be another by now; what was not wanted then is not wanted now.
            saving: fresh.saving.filter(|_| before.saving.is_some()),
            agent: fresh.agent,
            profile: fresh.profile,
            profile_text: fresh.profile_text,
            bwrap: fresh.bwrap,
            home: fresh.home,
            host_config_root: fresh.host_config_root,
            login_file: fresh.login_file,
            // Their values are known to whoever gives them now, and to nobody else.
            secrets: fresh.secrets,
            socket_dir: fresh.socket_dir,
            wait_for_locks: fresh.wait_for_locks,
            retry_of: fresh.retry_of,
            delivers: fresh.delivers,
            ..before.clone()
        };
        spec.labels = run_marks::labels(&before.labels, &options.labels)
            .map_err(|error| refused("a label of the run before cannot be used", error))?;
        spec.env.extend(options.variables.iter().map(|set| (set.name.clone(), set.value.clone())));
        spec.expose.retain(|path| path.0.exists());
        spec.expose.extend(fresh.expose.into_iter().filter(|path| !before.expose.contains(path)));
        let hosts = fresh.allow_hosts.into_iter();
        spec.allow_hosts.extend(hosts.filter(|host| !before.allow_hosts.contains(host)));
        limit_options::apply(&options.limits, &mut spec.resources);
        if fresh.network.is_some() {
            spec.network = fresh.network;
            // Which way out there is depends on the mode.
            spec.env.retain(|name, _| !is_proxy_variable(name));
            let proxies = fresh.env.into_iter().filter(|(name, _)| is_proxy_variable(name));
            spec.env.extend(proxies);
        }
        spec.restart |= fresh.restart;
        spec.partial_output |= fresh.partial_output;
        spec.mode = fresh.mode.or(before.mode);
        if options.model.is_some() {
            spec.model = fresh.model;
        }
        if options.user_mcp || !options.servers.mcp.is_empty() {
            spec.user_mcp = fresh.user_mcp;
        }
        if !options.servers.mcp_from_repo.is_empty() {
            spec.repository_mcp = fresh.repository_mcp;
        }
        // What was approved was approved for the sandbox that the run had.
        if options.no_force || options.force || spec.profile != before.profile {
            spec.tool_approval = fresh.tool_approval;
        }
        if !options.agent_flags.is_empty() {
            spec.extra_flags = fresh.extra_flags;
        }
        if options.timeout.is_some() {
            spec.limits.wall_ms = fresh.limits.wall_ms;
        }
        if options.idle_timeout.is_some() {
            spec.limits.idle_ms = fresh.limits.idle_ms;
        }
        if options.max_tool_calls.is_some() {
            spec.limits.tool_calls = fresh.limits.tool_calls;
        }
        if options.max_tokens.is_some() {
            spec.limits.tokens = fresh.limits.tokens;
        }
        Ok(spec)
    }
}
