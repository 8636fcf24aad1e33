//! The subcommands, and the prompt itself.

mod mcp;

use std::io;
use std::sync::Arc;
use std::thread;

use ground::now_ms;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::command_line::{Format, McpVerb, Options, Verb, not_simulated};
use crate::mcp_client::{McpClients, McpSetup, TimeLimits};
use crate::misbehaviour::Armed;
use crate::permissions::{ApprovalPolicy, Permissions};
use crate::process::LONGEST_LIFE;
use crate::process::ending::Ending;
use crate::process::environment::Environment;
use crate::process::groups::ProcessGroups;
use crate::process::signals;
use crate::process::stdout::Output;
use crate::session_store::{Closing, SessionFacts, SessionMode, SessionStore};
use crate::startup::cli_config::Settings;
use crate::startup::{Plan, Startup, models, project_root};
use crate::tools::{Generation, TodoList, ToolEnvironment};
use crate::turn::Turn;
use crate::{VERSION, say};

const EMAIL: &str = "simulated@example.com";

const RAW_MODE: &str = "ERROR Raw mode is not supported on the current process.stdin, which Ink uses \
                        as input stream by default.\nRead about how to prevent this error on \
                        https://github.com/vadimdemedes/ink/#israwmodesupported";

pub fn run(
    environment: &Environment,
    options: &Options,
    command: Option<Verb>,
    words: Vec<String>,
) -> Result<(), Ending> {
    let startup = Startup::new(environment, options)?;
    match command {
        None if options.list_models => list_models(&startup),
        None => answer(&startup, &words),
        Some(Verb::Agent { words }) => answer(&startup, &words),
        Some(Verb::Status(format)) => status(&startup, &format),
        Some(Verb::About(format)) => about(&startup, &format),
        Some(Verb::Models) => list_models(&startup),
        Some(Verb::CreateChat) => create_chat(&startup),
        Some(Verb::Mcp(McpVerb::Login { .. })) => Err(not_simulated("mcp login")),
        Some(Verb::Mcp(verb)) => mcp::run(&startup, &verb),
        Some(Verb::Ls | Verb::Resume) if !environment.is_interactive => {
            Err(Ending::failure(RAW_MODE))
        }
        Some(Verb::Ls | Verb::Resume) => Err(not_simulated("a list of sessions")),
        Some(Verb::WorkerServer { .. } | Verb::DeafChild { .. }) => Err(not_simulated("a helper")),
    }
}

/// Answers a prompt: the turn, and the wait after it.
fn answer(startup: &Startup<'_>, words: &[String]) -> Result<(), Ending> {
    let output = Arc::new(Output::to_stdout());
    let processes = ProcessGroups::default();
    let ears = signals::listen(Arc::clone(&output), processes.clone())?;
    let plan = startup.check(&mut io::stdin(), words)?;
    let waits_for_stdin = plan.prompt.is_from_words && !startup.environment.is_interactive;
    let generation =
        plan.script.as_ref().and_then(|script| script.generation).unwrap_or(Generation::V2026_09);
    let facts = SessionFacts {
        model: plan.model.id.clone(),
        mode: plan.mode,
        generation,
        run_everything: plan.is_forced,
        ..new_session(startup)
    };
    let store = SessionStore::open(&plan.bucket, &plan.workspace, plan.session_id, facts)
        .map_err(Ending::error)?;
    let tools = ToolEnvironment {
        todos: TodoList::new(store.todos()),
        ..tools(startup, &plan, generation, &processes)
    };
    let reentry = startup.environment.reentry.clone();
    let outcome = Turn::new(plan, output, ears, reentry, tools, store).perform();
    processes.kill_all();
    outcome?;
    if waits_for_stdin {
        // The real agent needs no more input, but stays as long as stdin is open.
        io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    }
    Ok(())
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
    let policy = match plan.mode {
        SessionMode::Ask | SessionMode::Plan => ApprovalPolicy::ReadOnly,
        SessionMode::Agent if plan.is_forced => ApprovalPolicy::Force,
        SessionMode::Agent => ApprovalPolicy::AllowList,
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

/// Exits with 0 even if the user is not logged in.
fn status(startup: &Startup<'_>, format: &Format) -> Result<(), Ending> {
    let is_authenticated = startup.login().is_ok();
    let text = match is_authenticated {
        _ if format.is_json() => json!({
            "status": if is_authenticated { "authenticated" } else { "unauthenticated" },
            "isAuthenticated": is_authenticated,
            "hasAccessToken": is_authenticated,
            "hasRefreshToken": is_authenticated,
            "userInfo": is_authenticated.then(|| json!({
                "email": EMAIL, "userId": 0, "firstName": "Simulated", "lastName": "Agent",
            })),
        })
        .to_string(),
        true => format!("✓ Logged in as {EMAIL}"),
        false => "Not logged in".to_owned(),
    };
    say(&(text + "\n"))
}

fn about(startup: &Startup<'_>, format: &Format) -> Result<(), Ending> {
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
        "terminalProgram": startup.environment.terminal_program,
        "shell": startup.environment.shell,
        "lastRequestId": Value::Null,
    });
    if format.is_json() {
        return say(&format!("{facts}\n"));
    }
    let lines = facts.as_object().into_iter().flatten().map(|(name, value)| {
        format!("{name:<18}{}\n", value.as_str().map_or(value.to_string(), str::to_owned))
    });
    say(&format!("About Cursor CLI (simulated)\n\n{}", lines.collect::<String>()))
}

fn list_models(startup: &Startup<'_>) -> Result<(), Ending> {
    startup.login()?;
    let lines = models::all().map(|model| format!("{} - {}\n", model.id, model.display_name));
    say(&format!("Available models\n\n{}", lines.collect::<String>()))
}

/// Prints an id. The session has only its `meta.json`.
fn create_chat(startup: &Startup<'_>) -> Result<(), Ending> {
    let armed = startup.armed()?;
    startup.login()?;
    let workspace = startup.workspace()?;
    let id = Uuid::new_v4();
    let bucket = startup.bucket(&workspace, &armed);
    let store =
        SessionStore::open(&bucket, &workspace, id, new_session(startup)).map_err(Ending::error)?;
    // A clean close would delete a session without a conversation.
    store.close(Closing::LeaveWal).map_err(Ending::error)?;
    say(&format!("{id}\n"))?;
    if armed.iter().any(Armed::keeps_create_chat) {
        thread::sleep(LONGEST_LIFE);
    }
    Ok(())
}
