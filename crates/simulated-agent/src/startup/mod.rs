//! The checks before the first line of output, in the real agent's order: login, output format, prompt, model, trust,
//! session.

pub mod cli_config;
pub mod models;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cursor_home::{CursorRoots, ProjectDir, WorkspacePath, trust_marker_json};
use ground::now_ms;
use uuid::Uuid;

use crate::command_line::Options;
use crate::mcp_client::ServerApproval;
use crate::misbehaviour::Armed;
use crate::process::ending::Ending;
use crate::process::environment::Environment;
use crate::process::failures::{BAD_API_KEY, NOT_LOGGED_IN};
use crate::process::stdout::OutputFormat;
use crate::script::{Order, Script, source};
use crate::session_store::{self, SessionMode, SessionStore};
use crate::tools::read_json;
use cli_config::Settings;
use models::Model;

/// Everything that the process knows before the first check.
pub struct Startup<'a> {
    pub environment: &'a Environment,
    pub options: &'a Options,
    pub roots: CursorRoots,
}

/// A turn that passed every check.
pub struct Plan {
    pub roots: CursorRoots,
    pub workspace: WorkspacePath,
    /// The directory with the workspace's sessions.
    pub bucket: PathBuf,
    pub project_directory: ProjectDir,
    pub session_id: Uuid,
    pub model: Model,
    pub mode: SessionMode,
    /// The value of `apiKeySource`.
    pub login: &'static str,
    pub format: OutputFormat,
    pub streams_partial_output: bool,
    /// True if every tool that is not denied may run.
    pub is_forced: bool,
    pub server_approval: ServerApproval,
    /// True if the result of `--output-format json` includes the thoughts.
    pub shows_thinking: bool,
    /// How long background shells keep the run open. Without a value, the run does not wait for them.
    pub background_wait: Option<Duration>,
    pub prompt: Prompt,
    /// Without a script, the agent plays the demonstration.
    pub script: Option<Script>,
    /// Misbehaviours that the environment asks for.
    pub armed: Vec<Armed>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
    /// True if the prompt was on the command line. The process then stays until stdin is closed.
    pub is_from_words: bool,
}

/// A day: longer than any run.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

impl<'a> Startup<'a> {
    pub fn new(environment: &'a Environment, options: &'a Options) -> Result<Self, Ending> {
        let roots = environment.roots(options.data_dir.as_deref()).map_err(Ending::error)?;
        Ok(Self { environment, options, roots })
    }

    pub fn armed(&self) -> Result<Vec<Armed>, Ending> {
        let list = self.environment.misbehaviours.as_deref().unwrap_or_default();
        Armed::parse_list(list).map_err(|err| {
            Ending::failure(format!("simulated agent: SIMULATED_AGENT_MISBEHAVE: {err}"))
        })
    }

    /// Returns the source of the login, as `apiKeySource` names it.
    pub fn login(&self) -> Result<&'static str, Ending> {
        let key = self.options.api_key.as_deref().map(|key| (key, "flag"));
        let key = key.or_else(|| Some((self.environment.api_key.as_deref()?, "env")));
        if let Some((key, source)) = key {
            return match key.starts_with("invalid") {
                true => Err(Ending::failure(BAD_API_KEY)),
                false => Ok(source),
            };
        }
        let token = self.options.auth_token.as_ref().or(self.environment.auth_token.as_ref());
        match token.is_some() || self.roots.auth_files().iter().any(|path| has_token(path)) {
            true => Ok("login"),
            false => Err(Ending::failure(NOT_LOGGED_IN)),
        }
    }

    /// Returns the workspace without symlinks: `--workspace`, else the current directory.
    pub fn workspace(&self) -> Result<WorkspacePath, Ending> {
        let named = self.options.workspace.as_deref().unwrap_or(".");
        let path = self.environment.current_directory.join(named);
        let physical = fs::canonicalize(&path).ok().filter(|path| path.is_dir());
        physical
            .and_then(|path| WorkspacePath::new(&path).ok())
            .ok_or_else(|| Ending::error(format!("Workspace not found: {named}")))
    }

    /// Makes every check and returns the turn to start.
    pub fn check(&self, stdin: &mut dyn Read, words: &[String]) -> Result<Plan, Ending> {
        let options = self.options;
        let armed = self.armed()?;
        armed.iter().try_for_each(|one| one.at_startup(self))?;
        let mut settings = Settings::load(&self.roots.cli_config())?;
        let login = self.login()?;
        let format = self.output_format()?;
        let prompt = self.prompt(stdin, words)?;
        let workspace = self.workspace()?;
        let script = self.script(&prompt.text, workspace.as_path())?;
        script.iter().flat_map(Script::misbehaviours).try_for_each(|one| one.at_startup(self))?;
        let model = self.model(&mut settings)?;
        let project_directory = self.roots.project_dir(&project_root(&workspace));
        self.check_trust(&workspace, &project_directory)?;
        let named = armed.iter().chain(script.iter().flat_map(Script::misbehaviours));
        let bucket = self.bucket(&workspace, named);
        let session_id = self.session(&bucket)?;
        Ok(Plan {
            roots: self.roots.clone(),
            workspace,
            bucket,
            project_directory,
            session_id,
            model,
            mode: self.mode(),
            login,
            format,
            streams_partial_output: options.stream_partial_output,
            is_forced: options.force,
            server_approval: match options.approve_mcps || options.force {
                true => ServerApproval::All,
                false => ServerApproval::Recorded,
            },
            shows_thinking: options.show_thinking,
            background_wait: self.background_wait()?,
            prompt,
            script,
            armed,
        })
    }

    fn output_format(&self) -> Result<OutputFormat, Ending> {
        let name = self.options.output_format.as_deref().unwrap_or("text");
        OutputFormat::from_name(name).ok_or_else(|| {
            Ending::error(format!("Invalid output format: {name}. Use text, json or stream-json."))
        })
    }

    fn prompt(&self, stdin: &mut dyn Read, words: &[String]) -> Result<Prompt, Ending> {
        let options = self.options;
        for (name, is_given) in [
            ("cloud", options.cloud),
            ("background", options.background),
            ("worktree", options.worktree.is_some()),
        ] {
            if is_given {
                let text = format!("simulated agent: --{name} is not simulated");
                return Err(Ending::failure(text));
            }
        }
        if self.environment.is_interactive && !options.print {
            return Err(Ending::failure(
                "simulated agent: only the headless mode is simulated; add --print",
            ));
        }
        let is_from_words = !words.is_empty() || self.environment.is_interactive;
        let mut text = words.join(" ");
        if !is_from_words {
            let mut bytes = Vec::new();
            stdin.read_to_end(&mut bytes)?;
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        if text.trim().is_empty() {
            return Err(Ending::error("No prompt provided for print mode"));
        }
        Ok(Prompt { text, is_from_words })
    }

    fn script(&self, prompt: &str, workspace: &Path) -> Result<Option<Script>, Ending> {
        if let Some(refusal) = self.refused_by_the_server()? {
            return Ok(Some(refusal));
        }
        source::find(self.environment.script.as_deref(), prompt, workspace)
            .map_err(|err| Ending::failure(format!("simulated agent: {err}")))
    }

    /// The command line accepts two options that the service then refuses.
    fn refused_by_the_server(&self) -> Result<Option<Script>, Ending> {
        let file = self.options.system_prompt.as_deref();
        if let Some(file) = file
            && !self.environment.current_directory.join(file).is_file()
        {
            return Err(Ending::error(format!("--system-prompt file not found: {file}")));
        }
        let refused = match file {
            Some(_) => "system-prompt",
            None if self.options.exclude_workspace_context => "exclude-workspace-context",
            None => return Ok(None),
        };
        let complaint = format!("RetriableError: [invalid_argument] unknown option '--{refused}'");
        Ok(Some(Script { orders: vec![Order::Refused(complaint)], ..Script::default() }))
    }

    /// Returns the model of `--model`, which later runs keep; else the model of an earlier run; else the default.
    fn model(&self, settings: &mut Settings) -> Result<Model, Ending> {
        let known = |id| models::find(id).ok_or_else(|| Ending::failure(models::refusal(id)));
        match (self.options.model.as_deref(), settings.model()) {
            (Some(id), _) => {
                let model = known(id)?;
                settings.remember_model(&model, &self.roots.cli_config())?;
                Ok(model)
            }
            (None, Some(model)) => Ok(model),
            (None, None) => known(models::DEFAULT),
        }
    }

    fn mode(&self) -> SessionMode {
        match self.options.mode.as_deref() {
            Some("ask") => SessionMode::Ask,
            Some("plan") => SessionMode::Plan,
            _ if self.options.plan => SessionMode::Plan,
            _ => SessionMode::Agent,
        }
    }

    fn check_trust(&self, workspace: &WorkspacePath, project: &ProjectDir) -> Result<(), Ending> {
        let marker = project.trust_marker();
        if marker.exists() || self.options.force {
            return Ok(());
        }
        if !self.options.trust {
            return Err(Ending { exit_code: 1, stderr: trust_required(workspace) });
        }
        let json = trust_marker_json(workspace, now_ms()).map_err(Ending::error)?;
        fs::create_dir_all(project.path())?;
        Ok(fs::write(marker, json)?)
    }

    /// Returns the directory with the workspace's sessions, which a misbehaviour may name differently.
    pub fn bucket<'m>(
        &self,
        workspace: &WorkspacePath,
        misbehaviours: impl IntoIterator<Item = &'m Armed>,
    ) -> PathBuf {
        let other = misbehaviours.into_iter().find_map(|one| one.bucket(&self.roots, workspace));
        other.unwrap_or_else(|| self.roots.chats_of(workspace))
    }

    fn session(&self, bucket: &Path) -> Result<Uuid, Ending> {
        if let Some(id) = &self.options.new_session_id {
            let id = Uuid::try_parse(id).ok().filter(|uuid| uuid.get_version_num() == 4);
            let id = id.ok_or_else(|| Ending::error("--new-session-id must be a UUIDv4."))?;
            return match SessionStore::exists(bucket, id) {
                true => Err(Ending::error(format!("Session ID \"{id}\" is already in use."))),
                false => Ok(id),
            };
        }
        let latest = |n: usize| {
            let sessions = session_store::recent_sessions(bucket);
            sessions.get(n.saturating_sub(1)).copied()
        };
        match &self.options.resume {
            Some(Some(chat)) => match chat.strip_prefix('-').and_then(|n| n.parse().ok()) {
                Some(n) => {
                    latest(n).ok_or_else(|| Ending::error(format!("No chat found for {chat}.")))
                }
                None => Uuid::try_parse(chat).map_err(|_| {
                    Ending::failure(format!(
                        "Failed to claim persistent session for chat \"{chat}\": \
                         Persistent-session chat ID must be a UUID"
                    ))
                }),
            },
            None if !self.options.r#continue => Ok(Uuid::new_v4()),
            _ => Ok(latest(1).unwrap_or_else(Uuid::new_v4)),
        }
    }

    fn background_wait(&self) -> Result<Option<Duration>, Ending> {
        match &self.options.background_shell_timeout {
            _ if self.options.single_turn => Ok(None),
            None => Ok(Some(NO_LIMIT)),
            Some(text) => text
                .parse()
                .map(|seconds| Some(Duration::from_secs(seconds)))
                .map_err(|_| Ending::error(format!("Invalid background shell timeout: {text}"))),
        }
    }
}

/// Returns the root of the git tree around the workspace, or else the workspace. Trust and approvals belong to it.
pub fn project_root(workspace: &WorkspacePath) -> WorkspacePath {
    let mut ancestors = workspace.as_path().ancestors();
    let top = ancestors.find(|directory| directory.join(".git").exists());
    top.and_then(|top| WorkspacePath::new(top).ok()).unwrap_or_else(|| workspace.clone())
}

fn has_token(auth_file: &Path) -> bool {
    let auth = read_json(auth_file).unwrap_or_default();
    auth["accessToken"].as_str().is_some_and(|token| !token.is_empty())
}

fn trust_required(workspace: &WorkspacePath) -> String {
    format!(
        "\n⚠ Workspace Trust Required\n\n  \
         Cursor Agent can execute code and access files in this directory.\n  \
         Do you trust the contents of this directory?\n\n    \
         {}\n\n  \
         To proceed, you can either:\n    \
         • Run 'agent' interactively to decide\n    \
         • Pass --trust, --yolo, or -f if you trust this directory\n",
        workspace.as_path().display()
    )
}
