//! What is checked before the first line, in the order in which the real agent checks it:
//! login, output format, prompt, model, trust, session.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cursor_home::{CursorRoots, ProjectDir, WorkspacePath, trust_marker_json};
use ground::now_ms;
use serde_json::Value;
use uuid::Uuid;

use crate::cli_config::Settings;
use crate::command_line::Options;
use crate::ending::Ending;
use crate::environment::{Environment, Terminal};
use crate::failures::{BAD_API_KEY, NOT_LOGGED_IN};
use crate::mcp_client::ServerApproval;
use crate::misbehaviour::Armed;
use crate::models::{self, Model};
use crate::output::OutputFormat;
use crate::script::{Order, Script, source};
use crate::session_store::{self, SessionMode, SessionStore};

/// What is known when the process starts, before anything is checked.
pub struct Startup<'a> {
    pub environment: &'a Environment,
    pub options: &'a Options,
    pub roots: CursorRoots,
}

/// A turn that may begin.
pub struct Plan {
    pub roots: CursorRoots,
    pub workspace: WorkspacePath,
    pub project_directory: ProjectDir,
    pub session_id: Uuid,
    pub model: Model,
    pub mode: SessionMode,
    pub api_key_source: &'static str,
    pub format: OutputFormat,
    pub partial_output: PartialOutput,
    pub approval: Approval,
    pub server_approval: ServerApproval,
    pub thoughts: Thoughts,
    /// How long background shells keep the run open; none: not at all.
    pub background_wait: Option<Duration>,
    pub prompt: Prompt,
    /// None: the demonstration.
    pub script: Option<Script>,
    /// Asked for from outside.
    pub armed: Vec<Armed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialOutput {
    Off,
    On,
}

/// Whether tools run without being allowed one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    Asked,
    Forced,
}

/// Whether the result of `--output-format json` carries what was thought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoughts {
    Hidden,
    InResult,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Prompt {
    pub text: String,
    pub source: PromptSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptSource {
    /// Words of the command line. The process then stays until stdin is closed.
    Words,
    Stdin,
}

/// A day: longer than any run, and the hard limit of a shell.
const NO_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

impl<'a> Startup<'a> {
    pub fn new(environment: &'a Environment, options: &'a Options) -> Result<Self, Ending> {
        let roots = environment
            .roots(options.value("data-dir"))
            .map_err(|err| Ending::failure(format!("Error: {err}")))?;
        Ok(Self { environment, options, roots })
    }

    pub fn armed(&self) -> Result<Vec<Armed>, Ending> {
        let list = self.environment.misbehaviours.as_deref().unwrap_or_default();
        Armed::parse_list(list).map_err(|err| {
            Ending::failure(format!("simulated agent: SIMULATED_AGENT_MISBEHAVE: {err}"))
        })
    }

    /// Returns where the login comes from, in the words of `apiKeySource`.
    pub fn login(&self) -> Result<&'static str, Ending> {
        let key = self.options.value("api-key").map(|key| (key, "flag"));
        let key = key.or_else(|| Some((self.environment.api_key.as_deref()?, "env")));
        if let Some((key, source)) = key {
            return match key.starts_with("invalid") {
                true => Err(Ending::failure(BAD_API_KEY)),
                false => Ok(source),
            };
        }
        let token = self.options.value("auth-token").or(self.environment.auth_token.as_deref());
        match token.is_some() || self.roots.auth_files().iter().any(|path| has_token(path)) {
            true => Ok("login"),
            false => Err(Ending::failure(NOT_LOGGED_IN)),
        }
    }

    /// The workspace with its symlinks resolved; `--workspace` counts, not where we stand.
    pub fn workspace(&self) -> Result<WorkspacePath, Ending> {
        let named = self.options.value("workspace").map(Path::new).unwrap_or(Path::new("."));
        let path = self.environment.current_directory.join(named);
        let physical = fs::canonicalize(&path).ok().filter(|path| path.is_dir());
        physical.and_then(|path| WorkspacePath::new(&path).ok()).ok_or_else(|| {
            Ending::failure(format!("Error: Workspace not found: {}", named.display()))
        })
    }

    /// Checks everything and returns the turn that may begin.
    pub fn check(&self, stdin: &mut dyn Read, words: &[String]) -> Result<Plan, Ending> {
        let armed = self.armed()?;
        for one in &armed {
            one.at_startup(self)?;
        }
        let settings_path = self.roots.cli_config();
        let mut settings = Settings::load(&settings_path)?;
        let api_key_source = self.login()?;
        let format = self.output_format()?;
        let prompt = self.prompt(stdin, words)?;
        let workspace = self.workspace()?;
        let script = self.script(&prompt.text, workspace.as_path())?;
        for one in script.iter().flat_map(Script::misbehaviours) {
            one.at_startup(self)?;
        }
        let model = self.model(&mut settings, &settings_path)?;
        let project_directory = self.roots.project_dir(&project_root(&workspace));
        let approval = match self.options.has("force") || self.options.has("yolo") {
            true => Approval::Forced,
            false => Approval::Asked,
        };
        self.check_trust(&workspace, &project_directory, approval)?;
        let session_id = self.session(&workspace)?;
        Ok(Plan {
            roots: self.roots.clone(),
            workspace,
            project_directory,
            session_id,
            model,
            mode: self.mode(),
            api_key_source,
            format,
            partial_output: match self.options.has("stream-partial-output") {
                true => PartialOutput::On,
                false => PartialOutput::Off,
            },
            approval,
            server_approval: match self.options.has("approve-mcps") || approval == Approval::Forced
            {
                true => ServerApproval::All,
                false => ServerApproval::Recorded,
            },
            thoughts: match self.options.has("show-thinking") {
                true => Thoughts::InResult,
                false => Thoughts::Hidden,
            },
            background_wait: self.background_wait()?,
            prompt,
            script,
            armed,
        })
    }

    fn output_format(&self) -> Result<OutputFormat, Ending> {
        let name = self.options.value("output-format").unwrap_or("text");
        OutputFormat::from_name(name).ok_or_else(|| {
            Ending::failure(format!(
                "Error: Invalid output format: {name}. Use text, json or stream-json."
            ))
        })
    }

    fn prompt(&self, stdin: &mut dyn Read, words: &[String]) -> Result<Prompt, Ending> {
        for not_simulated in ["cloud", "background", "worktree"] {
            if self.options.has(not_simulated) {
                return Err(Ending::failure(format!(
                    "simulated agent: --{not_simulated} is not simulated"
                )));
            }
        }
        if self.environment.terminal == Terminal::Both && !self.options.has("print") {
            return Err(Ending::failure(
                "simulated agent: only the headless mode is simulated; add --print",
            ));
        }
        let (text, source) = if !words.is_empty() {
            (words.join(" "), PromptSource::Words)
        } else if self.environment.terminal == Terminal::Both {
            (String::new(), PromptSource::Words)
        } else {
            let mut bytes = Vec::new();
            stdin.read_to_end(&mut bytes)?;
            (String::from_utf8_lossy(&bytes).into_owned(), PromptSource::Stdin)
        };
        if text.trim().is_empty() {
            return Err(Ending::failure("Error: No prompt provided for print mode"));
        }
        Ok(Prompt { text, source })
    }

    fn script(&self, prompt: &str, workspace: &Path) -> Result<Option<Script>, Ending> {
        if let Some(refusal) = self.refused_by_the_server()? {
            return Ok(Some(refusal));
        }
        source::find(self.environment.script.as_deref(), prompt, workspace)
            .map_err(|err| Ending::failure(format!("simulated agent: {err}")))
    }

    /// Options that the command line takes and the service then refuses.
    fn refused_by_the_server(&self) -> Result<Option<Script>, Ending> {
        if let Some(file) = self.options.value("system-prompt")
            && !self.environment.current_directory.join(file).is_file()
        {
            return Err(Ending::failure(format!("Error: --system-prompt file not found: {file}")));
        }
        let refused = ["system-prompt", "exclude-workspace-context"];
        let refused = refused.into_iter().find(|option| self.options.has(option));
        Ok(refused.map(|option| {
            let complaint =
                format!("RetriableError: [invalid_argument] unknown option '--{option}'");
            Script { orders: vec![Order::Refused(complaint)], ..Script::default() }
        }))
    }

    /// A model asked for is remembered; else the one asked for before; else the default.
    fn model(&self, settings: &mut Settings, settings_path: &Path) -> Result<Model, Ending> {
        let known = |id| models::find(id).ok_or_else(|| Ending::failure(models::refusal(id)));
        match (self.options.value("model"), settings.model()) {
            (Some(id), _) => {
                let model = known(id)?;
                settings.remember_model(&model, settings_path)?;
                Ok(model)
            }
            (None, Some(model)) => Ok(model),
            (None, None) => known(models::DEFAULT),
        }
    }

    fn mode(&self) -> SessionMode {
        match self.options.value("mode") {
            Some("ask") => SessionMode::Ask,
            Some("plan") => SessionMode::Plan,
            _ if self.options.has("plan") => SessionMode::Plan,
            _ => SessionMode::Agent,
        }
    }

    fn check_trust(
        &self,
        workspace: &WorkspacePath,
        project: &ProjectDir,
        approval: Approval,
    ) -> Result<(), Ending> {
        let marker = project.trust_marker();
        if marker.exists() || approval == Approval::Forced {
            return Ok(());
        }
        if self.options.has("trust") {
            let json = trust_marker_json(workspace, now_ms())
                .map_err(|err| Ending::failure(format!("Error: {err}")))?;
            fs::create_dir_all(project.path())?;
            return Ok(fs::write(marker, json)?);
        }
        Err(Ending { exit_code: 1, stderr: trust_required(workspace) })
    }

    fn session(&self, workspace: &WorkspacePath) -> Result<Uuid, Ending> {
        if let Some(id) = self.options.value("new-session-id") {
            let id = Uuid::try_parse(id)
                .ok()
                .filter(|uuid| uuid.get_version_num() == 4)
                .ok_or_else(|| Ending::failure("Error: --new-session-id must be a UUIDv4."))?;
            return match SessionStore::exists(&self.roots, workspace, id) {
                true => {
                    Err(Ending::failure(format!("Error: Session ID \"{id}\" is already in use.")))
                }
                false => Ok(id),
            };
        }
        let latest = |n: usize| {
            session_store::recent_sessions(&self.roots, workspace)
                .get(n.saturating_sub(1))
                .map(|session| session.id)
        };
        match self.options.value("resume") {
            Some(chat) => match chat.strip_prefix('-').and_then(|n| n.parse().ok()) {
                Some(n) => latest(n)
                    .ok_or_else(|| Ending::failure(format!("Error: No chat found for {chat}."))),
                None => Uuid::try_parse(chat).map_err(|_| {
                    Ending::failure(format!(
                        "Failed to claim persistent session for chat \"{chat}\": \
                         Persistent-session chat ID must be a UUID"
                    ))
                }),
            },
            None if self.options.has("resume") || self.options.has("continue") => {
                Ok(latest(1).unwrap_or_else(Uuid::new_v4))
            }
            None => Ok(Uuid::new_v4()),
        }
    }

    fn background_wait(&self) -> Result<Option<Duration>, Ending> {
        if self.options.has("single-turn") {
            return Ok(None);
        }
        match self.options.value("background-shell-timeout") {
            None => Ok(Some(NO_LIMIT)),
            Some(text) => {
                text.parse().map(|seconds| Some(Duration::from_secs(seconds))).map_err(|_| {
                    Ending::failure(format!("Error: Invalid background shell timeout: {text}"))
                })
            }
        }
    }
}

/// The top of the git tree the workspace is in, else the workspace: trust and approvals go by it.
pub fn project_root(workspace: &WorkspacePath) -> WorkspacePath {
    let top: Option<PathBuf> = workspace
        .as_path()
        .ancestors()
        .find(|directory| directory.join(".git").exists())
        .map(Path::to_path_buf);
    top.and_then(|top| WorkspacePath::new(&top).ok()).unwrap_or_else(|| workspace.clone())
}

fn has_token(auth_file: &Path) -> bool {
    fs::read(auth_file)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        .is_some_and(|auth| auth["accessToken"].as_str().is_some_and(|token| !token.is_empty()))
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
