//! What is asked for by name instead of by prompt, and the prompt itself.

mod mcp;

use std::io;
use std::sync::Arc;
use std::thread;

use ground::now_ms;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::children::LONGEST_LIFE;
use crate::cli_config::Settings;
use crate::command_line::Options;
use crate::ending::Ending;
use crate::environment::{Environment, Terminal};
use crate::mcp_client::{McpClients, McpSetup, TimeLimits};
use crate::misbehaviour::Armed;
use crate::models;
use crate::output::Output;
use crate::permissions::{ApprovalPolicy, Permissions};
use crate::preflight::{Approval, Plan, PromptSource, Startup, project_root};
use crate::session_store::{Closing, SessionFacts, SessionMode, SessionStore};
use crate::signals;
use crate::tools::{Generation, ProcessGroups, TodoList, ToolEnvironment};
use crate::turn::{Surroundings, Turn};
use crate::{VERSION, say};

const EMAIL: &str = "simulated@example.com";

const RAW_MODE: &str = "ERROR Raw mode is not supported on the current process.stdin, which Ink uses \
                        as input stream by default.\nRead about how to prevent this error on \
                        https://github.com/vadimdemedes/ink/#israwmodesupported";

pub fn run(
    environment: &Environment,
    command: &[&'static str],
    options: &Options,
    words: &[String],
) -> Result<(), Ending> {
    let startup = Startup::new(environment, options)?;
    match command {
        [] if options.has("list-models") => models(&startup),
        [] | ["agent"] => answer(&startup, words),
        ["status"] => status(&startup),
        ["about"] => about(&startup),
        ["models"] => models(&startup),
        ["create-chat"] => create_chat(&startup),
        ["ls" | "resume"] if environment.terminal == Terminal::Piped => {
            Err(Ending::failure(RAW_MODE))
        }
        ["mcp", verb] if *verb != "login" => {
            mcp::run(&startup, verb, words.first().map(String::as_str).unwrap_or_default())
        }
        other => {
            let name = other.join(" ");
            Err(Ending::failure(format!("simulated agent: `{name}` is not simulated")))
        }
    }
}

/// Answers a prompt: the turn, and what keeps the process afterwards.
fn answer(startup: &Startup<'_>, words: &[String]) -> Result<(), Ending> {
    let output = Arc::new(Output::to_stdout());
    let processes = ProcessGroups::default();
    let ears = signals::listen(Arc::clone(&output), processes.clone())
        .map_err(|errno| Ending::failure(format!("Error: {errno}")))?;
    let plan = startup.check(&mut io::stdin(), words)?;
    let prompt_source = plan.prompt.source;
    let generation =
        plan.script.as_ref().and_then(|script| script.generation).unwrap_or(Generation::V2026_09);
    let store = open_store(startup, &plan, generation)?;
    let tools = ToolEnvironment {
        todos: TodoList::new(store.todos()),
        ..tools(startup, &plan, generation, &processes)
    };
    let reentry = startup.environment.reentry.clone();
    let surroundings = Surroundings { output, ears, reentry, tools, store };
    let outcome = Turn::new(plan, surroundings).perform();
    processes.kill_all();
    outcome?;
    if prompt_source == PromptSource::Words && startup.environment.terminal == Terminal::Piped {
        // Nothing is expected, but the real agent stays as long as somebody could write.
        io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    }
    Ok(())
}

fn open_store(
    startup: &Startup<'_>,
    plan: &Plan,
    generation: Generation,
) -> Result<SessionStore, Ending> {
    let facts = SessionFacts {
        model: plan.model.id.clone(),
        mode: plan.mode,
        generation,
        run_everything: plan.approval == Approval::Forced,
        ..new_session(startup)
    };
    SessionStore::open(&plan.roots, &plan.workspace, plan.session_id, facts)
        .map_err(|err| Ending::failure(format!("Error: {err}")))
}

fn new_session(startup: &Startup<'_>) -> SessionFacts {
    SessionFacts {
        model: models::DEFAULT.to_owned(),
        mode: SessionMode::Agent,
        started_ms: now_ms(),
        time_zone: startup.environment.time_zone.clone().unwrap_or_else(|| "UTC".to_owned()),
        generation: Generation::V2026_09,
        run_everything: false,
    }
}

fn tools(
    startup: &Startup<'_>,
    plan: &Plan,
    generation: Generation,
    processes: &ProcessGroups,
) -> ToolEnvironment {
    let root = project_root(&plan.workspace);
    let policy = match (plan.mode, plan.approval) {
        (SessionMode::Ask | SessionMode::Plan, _) => ApprovalPolicy::ReadOnly,
        (SessionMode::Agent, Approval::Forced) => ApprovalPolicy::Force,
        (SessionMode::Agent, Approval::Asked) => ApprovalPolicy::AllowList,
    };
    let setup = McpSetup {
        roots: &plan.roots,
        project_root: &root,
        workspace: &plan.workspace,
        project_directory: &plan.project_directory,
        approval: plan.server_approval,
        env: &startup.environment.variables,
        time_limits: TimeLimits::default(),
    };
    ToolEnvironment {
        workspace: plan.workspace.as_path().to_path_buf(),
        project_directory: plan.project_directory.clone(),
        session_id: plan.session_id,
        request_id: Uuid::new_v4().to_string(),
        generation,
        env: startup.environment.variables.clone(),
        permissions: Permissions::load(&plan.roots, &root, &plan.workspace, policy),
        mcp: McpClients::connect(&setup, processes),
        todos: TodoList::default(),
        processes: processes.clone(),
    }
}

/// Exit 0 whether or not somebody is logged in.
fn status(startup: &Startup<'_>) -> Result<(), Ending> {
    let is_authenticated = startup.login().is_ok();
    let text = match (startup.options.value("format"), is_authenticated) {
        (Some("json"), _) => json!({
            "status": if is_authenticated { "authenticated" } else { "unauthenticated" },
            "isAuthenticated": is_authenticated,
            "hasAccessToken": is_authenticated,
            "hasRefreshToken": is_authenticated,
            "userInfo": is_authenticated.then(|| json!({
                "email": EMAIL, "userId": 0, "firstName": "Simulated", "lastName": "Agent",
            })),
        })
        .to_string(),
        (_, true) => format!("✓ Logged in as {EMAIL}"),
        (_, false) => "Not logged in".to_owned(),
    };
    say(&(text + "\n"))
}

fn about(startup: &Startup<'_>) -> Result<(), Ending> {
    let environment = startup.environment;
    let settings = Settings::load(&startup.roots.cli_config())?;
    let model = settings.model().or_else(|| models::find(models::DEFAULT));
    let facts = json!({
        "cliVersion": VERSION,
        "latestStatus": "up-to-date",
        "latestVersion": VERSION,
        "model": model.map(|model| model.display_name),
        "subscriptionTier": "Simulated",
        "osPlatform": std::env::consts::OS,
        "osArch": std::env::consts::ARCH,
        "userEmail": startup.login().ok().map(|_| EMAIL),
        "terminalProgram": environment.terminal_program,
        "shell": environment.shell,
        "lastRequestId": Value::Null,
    });
    match startup.options.value("format") {
        Some("json") => say(&format!("{facts}\n")),
        _ => {
            let facts = facts.as_object().into_iter().flatten();
            let lines = facts.map(|(name, value)| {
                format!("{name:<18}{}\n", value.as_str().map_or(value.to_string(), str::to_owned))
            });
            say(&format!("About Cursor CLI (simulated)\n\n{}", lines.collect::<String>()))
        }
    }
}

fn models(startup: &Startup<'_>) -> Result<(), Ending> {
    startup.login()?;
    let lines = models::all().map(|model| format!("{} - {}\n", model.id, model.display_name));
    say(&format!("Available models\n\n{}", lines.collect::<String>()))
}

/// Prints an id. Nothing is kept of it but `meta.json`.
fn create_chat(startup: &Startup<'_>) -> Result<(), Ending> {
    let armed = startup.armed()?;
    startup.login()?;
    let workspace = startup.workspace()?;
    let id = Uuid::new_v4();
    let failure = |err: &dyn std::error::Error| Ending::failure(format!("Error: {err}"));
    SessionStore::open(&startup.roots, &workspace, id, new_session(startup))
        .map_err(|err| failure(&err))?
        // A clean close would delete what holds no conversation.
        .close(Closing::LeaveWal)
        .map_err(|err| failure(&err))?;
    say(&format!("{id}\n"))?;
    if armed.iter().any(Armed::keeps_create_chat) {
        thread::sleep(LONGEST_LIFE);
    }
    Ok(())
}
