//! `caretaker sandbox`: shows the sandbox and the network log of a run.

mod net_log;

use std::io::{self, Write};
use std::path::PathBuf;

use admission::admit::{Admission, Conversation, RunContext, StartMode};
use admission::command_error::CommandError;
use admission::host::agent_discovery::SIMULATED;
use admission::host::memory::usual_limit;
use admission::sandbox::profiles;
use admission::words::safe_text::on_one_line;
use admission::words::talk::note;
use admission::words::units;
use clap::Subcommand;
use run_protocol::{
    AllowedHost, CpuLimit, ExitCode, MemoryLimit, NetworkMode, ProcessLimit, RunRequest, RunSpec,
    SizeLimit,
};
use run_shim::{machine_memory, plan_run, survey_limits};
use sandbox_plan::{Profile, SandboxPlan, Sourced};
use serde::Serialize;

use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_view};
use crate::running::workspace_owner::become_owner;
use crate::view::styled_line::{DIM, ODD, PLAIN, write_line};
use crate::view::width::{Width, columns};
use crate::view::words;

/// Inspect the sandbox.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SandboxCommand,
}

#[derive(Debug, Subcommand)]
enum SandboxCommand {
    Explain(ExplainArgs),
    NetLog(net_log::Args),
}

/// Print every mount, variable, filter and limit of a run's sandbox, each with its line in the profile.
///
/// Starts and creates nothing.
#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// The profile.
    #[arg(long)]
    profile: Option<String>,
    /// The workspace of the run. Default: the current directory.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The agent's program, or `simulated`. Default: the installed cursor-agent.
    #[arg(long, value_name = "PATH|simulated")]
    agent: Option<PathBuf>,
    /// The network mode. Default: the profile's.
    #[arg(long, value_name = "MODE", value_parser = NetworkMode::parser())]
    network: Option<NetworkMode>,
    /// Also allow the registries of your own tools, and these hosts.
    #[arg(long, value_name = "HOST,…", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    registries: Option<Vec<AllowedHost>>,
    #[command(flatten)]
    limits: LimitOptions,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The limits of the machine, as with `run`.
#[derive(Debug, Clone, Copy, clap::Args)]
struct LimitOptions {
    /// The most memory for all processes of the run together: `4GiB`, `none`. Default: the profile's.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    memory: Option<MemoryLimit>,
    /// The most processes and threads at any moment; `none` for no limit.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    processes: Option<ProcessLimit>,
    /// The most processors to use: `1.5`, `none`.
    #[arg(long, value_name = "COUNT", help_heading = "Limits")]
    cpus: Option<CpuLimit>,
    /// The largest size of any one file: `1GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    max_file_size: Option<SizeLimit>,
    /// The most disk space that the run may use, in the workspace, in other writable places on the host, and for its
    /// own record: `10GiB`, `none`.
    #[arg(long, value_name = "SIZE", help_heading = "Limits")]
    disk: Option<SizeLimit>,
}

/// A sandbox, as `--json` prints it.
#[derive(Debug, Serialize)]
struct ExplainedSandbox {
    v: u32,
    profile: String,
    workspace: String,
    network: NetworkMode,
    warnings: Vec<String>,
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    /// `mount`, `variable`, `filter` and so on.
    what: String,
    detail: String,
    /// The profile line, or another source.
    origin: String,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        SandboxCommand::Explain(args) => explain(helper, args),
        SandboxCommand::NetLog(args) => net_log::run(helper, args),
    }
}

fn explain(helper: &CommandHelper, args: &ExplainArgs) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    become_owner(helper, args.workspace.as_deref())?;
    let LimitOptions { memory, processes, cpus, max_file_size, disk } = args.limits;
    let request = RunRequest {
        profile: args.profile.clone(),
        network: args.network,
        registries: args.registries.clone(),
        agent: args.agent.clone(),
        memory,
        processes,
        cpus,
        max_file_size,
        disk,
        ..RunRequest::default()
    };
    let spec = hypothetical_spec(helper, args.workspace.clone(), &request)?;
    let explained = match spec.profile.as_str() {
        // A run without a sandbox has no plan.
        profiles::OFF => without_sandbox(&spec),
        _ => {
            let mut explained = explained(&spec, &plan_run(&host.state, &spec)?);
            explained.parts.extend(limits(&spec, helper.config()?.queue.cap));
            explained
        }
    };
    if args.json {
        print_json(&explained)
    } else {
        print_view(|out| print(out, &explained, Width::of_stdout()))
    }
}

/// The spec of the run that would start. If no agent is installed, it uses the simulated agent.
pub(crate) fn hypothetical_spec(
    helper: &CommandHelper,
    workspace: Option<PathBuf>,
    request: &RunRequest,
) -> Result<RunSpec, CommandError> {
    let (host, config, program) = (&helper.host, helper.config()?, helper.program()?);
    let hypothetical = |request: &RunRequest| {
        let conversation = Conversation::New { workspace: workspace.clone() };
        let context = RunContext::new(conversation, StartMode::Direct { waits: false });
        Admission::new(host, config, program, request, context)?.hypothetical()
    };
    match hypothetical(request) {
        Err(error) if error.exit_code() == ExitCode::AgentNotFound && request.agent.is_none() => {
            note("no cursor-agent installed: showing the simulated agent");
            hypothetical(&RunRequest { agent: Some(SIMULATED.into()), ..request.clone() })
        }
        found => found,
    }
}

fn without_sandbox(spec: &RunSpec) -> ExplainedSandbox {
    let part = |detail: &str| Part {
        what: "guard".to_owned(),
        detail: detail.to_owned(),
        origin: "always".to_owned(),
    };
    ExplainedSandbox {
        v: 1,
        profile: spec.profile.clone(),
        workspace: spec.workspace.clone(),
        network: NetworkMode::Host,
        warnings: vec!["no sandbox: the agent can do everything that you can do".to_owned()],
        parts: vec![
            part("the agent's processes end with the run, unless they detach on purpose"),
            part("the agent's own permissions decide which tools run, unless you give --force"),
            part("none of Caretaker's MCP tools, because it writes nothing into the workspace"),
        ],
    }
}

fn explained(spec: &RunSpec, plan: &SandboxPlan) -> ExplainedSandbox {
    ExplainedSandbox {
        v: 1,
        profile: spec.profile.clone(),
        workspace: spec.workspace.clone(),
        network: plan.network().mode,
        warnings: plan.warnings().iter().map(ToString::to_string).collect(),
        parts: plan
            .explain()
            .into_iter()
            .map(|part| Part {
                what: part.what.to_string(),
                detail: part.detail,
                origin: part.origin.to_string(),
            })
            .collect(),
    }
}

/// The resource limits, the source of each, and the mechanism that enforces them on this host.
fn limits(spec: &RunSpec, cap: u32) -> Vec<Part> {
    let Ok(profile) = Profile::parse(&spec.profile, &spec.profile_text) else { return Vec::new() };
    let Some(of_profile) = profile.limits() else { return Vec::new() };
    let asked = &spec.resources;
    let part = |value: u64, limit: &Sourced<u64>, text: String| Part {
        what: "limit".to_owned(),
        detail: if value == 0 { format!("{text}: none") } else { text },
        origin: match value == limit.value {
            true => limit.origin.to_string(),
            false => "config or flag".to_owned(),
        },
    };
    let sized = |name: &str, bytes: u64| match bytes {
        0 => name.to_owned(),
        bytes => format!("{name} at most {}", units::bytes(bytes)),
    };
    let counted = |name: &str, count: u64| match count {
        0 => name.to_owned(),
        count => format!("{name} at most {count}"),
    };
    let processors = match asked.cpu_milli {
        0 => "processors".to_owned(),
        milli => format!("processors at most {}", words::processors(milli)),
    };
    let survey = survey_limits();
    let auto = usual_limit(machine_memory(), cap);
    let Sourced { value, origin } = of_profile.memory.clone();
    let memory = Sourced { value: value.bytes(auto), origin };
    let mut parts = vec![
        part(asked.memory_bytes, &memory, sized("memory", asked.memory_bytes)),
        part(asked.processes, &of_profile.processes, counted("processes", asked.processes)),
        part(asked.cpu_weight, &of_profile.cpu_weight, format!("weight {}", asked.cpu_weight)),
        part(asked.cpu_milli, &of_profile.cpu_milli, processors),
        part(asked.file_bytes, &of_profile.file_size, sized("any one file", asked.file_bytes)),
        part(asked.open_files, &of_profile.open_files, counted("open files", asked.open_files)),
        part(asked.disk_bytes, &of_profile.disk, sized("growth on disk", asked.disk_bytes)),
    ];
    parts.push(Part {
        what: "limit".to_owned(),
        detail: format!("enforced by {}", words::backend(survey.backend)),
        origin: "this host".to_owned(),
    });
    parts
}

fn print(out: &mut dyn Write, explained: &ExplainedSandbox, width: Width) -> io::Result<()> {
    for warning in &explained.warnings {
        write_line(out, &[(ODD, &format!("! {}", on_one_line(warning)))], width)?;
    }
    let widest = explained.parts.iter().map(|part| columns(&part.origin)).max().unwrap_or(0);
    for part in &explained.parts {
        let origin = format!("{:<widest$}  ", on_one_line(&part.origin));
        let what = format!("{:<9}  ", part.what);
        let detail = on_one_line(&part.detail);
        write_line(out, &[(DIM, &origin), (PLAIN, &what), (PLAIN, &detail)], width)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_follows_its_origin_in_aligned_columns() {
        let part = |what: &str, detail: &str, origin: &str| Part {
            what: what.to_owned(),
            detail: detail.to_owned(),
            origin: origin.to_owned(),
        };
        let explained = ExplainedSandbox {
            v: 1,
            profile: "default".to_owned(),
            workspace: "/w".to_owned(),
            network: NetworkMode::Allowlist,
            warnings: vec!["you are root".to_owned()],
            parts: vec![
                part("mount", "/usr read-only", "default.toml:42"),
                part("guard", "no capabilities", "always"),
            ],
        };
        let mut out = Vec::new();
        print(&mut out, &explained, Width::Unlimited).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(
            text,
            "! you are root\n\
             default.toml:42  mount      /usr read-only\n\
             always           guard      no capabilities\n"
        );
    }
}
