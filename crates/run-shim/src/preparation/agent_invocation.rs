//! The agent's arguments and variables.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use cursor_home::{
    AgentCommand, AgentEnvironment, ExtraFlags, ModelSlug, PartialOutput, ServerApproval,
    WorkspacePath,
};
use run_protocol::{NetworkMode, RunSpec};
use sandbox_plan::{Confinement, EnvVariable, Secrecy, VariableSource};

use crate::preparation::error::PrepareError;

/// The `PATH` if the host sets none.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The shell if the host names none. The agent chooses its shell by the word "zsh" or "bash" in `SHELL`.
const USUAL_SHELL: &str = "/bin/bash";

/// The agent's own arguments, after those that its program needs first.
pub(crate) fn arguments(
    spec: &RunSpec,
    workspace: &WorkspacePath,
    confinement: Confinement,
) -> Result<Vec<OsString>, PrepareError> {
    let command = AgentCommand {
        workspace: workspace.clone(),
        session: spec.session,
        model: spec.model.as_deref().map(ModelSlug::parse).transpose()?,
        mode: spec.mode,
        tool_approval: spec.tool_approval,
        partial_output: if spec.partial_output { PartialOutput::On } else { PartialOutput::Off },
        // Without a sandbox, the servers are the user's and the repository's own.
        server_approval: match confinement {
            Confinement::Bubblewrap => ServerApproval::All,
            Confinement::None => ServerApproval::UsersOwn,
        },
        extra: ExtraFlags::check(spec.extra_flags.iter().map(OsString::from))?,
    };
    let mut words: Vec<OsString> =
        spec.agent.leading_arguments.iter().map(OsString::from).collect();
    words.extend(command.args());
    Ok(words)
}

/// The agent's variables, with their sources.
pub(crate) fn environment(
    spec: &RunSpec,
    home: &Path,
    network: NetworkMode,
    secrets: &[(String, String)],
) -> Vec<EnvVariable> {
    let path = spec.env.get("PATH").map_or(USUAL_PATH, String::as_str);
    // The plan replaces a shell that is not visible inside.
    let shell = spec.env.get("SHELL").map_or(USUAL_SHELL, String::as_str);
    let agent = AgentEnvironment { home, path: OsStr::new(path), shell: Path::new(shell) };
    let ours = agent.variables().into_iter().map(|(name, value)| EnvVariable {
        name: name.into(),
        value,
        source: VariableSource::Run,
        secrecy: Secrecy::Public,
    });
    let to_our_proxy = match network {
        NetworkMode::Allowlist => crate::network::proxy_variables().to_vec(),
        NetworkMode::None | NetworkMode::Host => Vec::new(),
    };
    let to_our_proxy = to_our_proxy.into_iter().map(|(name, value)| {
        let (source, secrecy) = (VariableSource::Run, Secrecy::Public);
        EnvVariable { name: name.into(), value: value.into(), source, secrecy }
    });
    let memory = memory_variables(spec.resources.memory_bytes).into_iter().map(|(name, value)| {
        let (source, secrecy) = (VariableSource::Run, Secrecy::Public);
        EnvVariable { name: name.into(), value: value.into(), source, secrecy }
    });
    // Admission has already applied the profile to the host's variables.
    let is_placed = |name: &str| matches!(name, "PATH" | "SHELL");
    let asked_for = spec.env.iter().filter(|(name, _)| !is_placed(name)).map(|(name, value)| {
        let (source, secrecy) = (VariableSource::Run, Secrecy::Public);
        EnvVariable { name: name.into(), value: value.into(), source, secrecy }
    });
    let secret = secrets.iter().map(|(name, value)| EnvVariable {
        name: name.into(),
        value: value.into(),
        source: VariableSource::Run,
        secrecy: Secrecy::Secret,
    });
    ours.chain(to_our_proxy).chain(memory).chain(asked_for).chain(secret).collect()
}

/// Tells runtimes the memory limit. They would read it from `/sys/fs/cgroup`, which the sandbox does not have, and
/// would otherwise plan for the whole machine's memory. The user's own values win.
///
/// Node gets no limit: it has only NODE_OPTIONS for this, which the agent's own node would obey too.
fn memory_variables(bytes: u64) -> Vec<(&'static str, String)> {
    match bytes {
        0 => Vec::new(),
        // The JVM's heap is a quarter of this, as in a container. Old versions also support this option. The heap of
        // .NET is three quarters of a container's memory; it reads a hexadecimal number.
        bytes => vec![
            ("JAVA_TOOL_OPTIONS", format!("-XX:MaxRAM={bytes}")),
            ("DOTNET_GCHeapHardLimit", format!("{:x}", bytes / 4 * 3)),
        ],
    }
}

/// Turns signing off, because the sandbox has no keys. For git, these variables take precedence over any file.
pub(crate) fn without_signing() -> impl Iterator<Item = EnvVariable> {
    let settings = [
        ("GIT_CONFIG_COUNT", "2"),
        ("GIT_CONFIG_KEY_0", "commit.gpgsign"),
        ("GIT_CONFIG_VALUE_0", "false"),
        ("GIT_CONFIG_KEY_1", "tag.gpgsign"),
        ("GIT_CONFIG_VALUE_1", "false"),
    ];
    settings.into_iter().map(|(name, value)| {
        let (source, secrecy) = (VariableSource::Run, Secrecy::Public);
        EnvVariable { name: name.into(), value: value.into(), source, secrecy }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_runtimes_get_the_memory_limit_if_there_is_one() {
        let expected = [
            ("JAVA_TOOL_OPTIONS", "-XX:MaxRAM=2147483648".to_owned()),
            ("DOTNET_GCHeapHardLimit", "60000000".to_owned()),
        ];
        assert_eq!(memory_variables(2 << 30), expected);
        assert_eq!(memory_variables(0), []);
    }
}
