//! Everything that the process learns from its surroundings, read once.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use cursor_home::{CursorRoots, HostEnvironment, RootsError};

use super::helpers::Reentry;

#[derive(Clone, Debug)]
pub struct Environment {
    pub host: HostEnvironment,
    pub current_directory: PathBuf,
    /// All variables, for the shells.
    pub variables: Vec<(OsString, OsString)>,
    pub api_key: Option<String>,
    pub auth_token: Option<String>,
    pub shell: Option<String>,
    pub terminal_program: Option<String>,
    pub time_zone: Option<String>,
    /// `SIMULATED_AGENT_SCRIPT`: wins over a script in the prompt.
    pub script: Option<PathBuf>,
    /// `SIMULATED_AGENT_MISBEHAVE`: `name[=argument],name…`.
    pub misbehaviours: Option<String>,
    /// True if stdin and stdout are terminals. Otherwise the agent is headless.
    pub is_interactive: bool,
    pub reentry: Reentry,
}

impl Environment {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process(reentry: Reentry) -> io::Result<Self> {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name: &str| given(name).map(|value| value.to_string_lossy().into_owned());
        let current_directory = std::env::current_dir()?;
        Ok(Self {
            host: HostEnvironment {
                home: given("HOME"),
                cursor_config_dir: given("CURSOR_CONFIG_DIR"),
                xdg_config_home: given("XDG_CONFIG_HOME"),
                cursor_data_dir: given("CURSOR_DATA_DIR"),
                cwd: Some(current_directory.clone()),
            },
            current_directory,
            variables: std::env::vars_os().collect(),
            api_key: text("CURSOR_API_KEY"),
            auth_token: text("CURSOR_AUTH_TOKEN"),
            shell: text("SHELL"),
            terminal_program: text("TERM_PROGRAM"),
            time_zone: text("TZ"),
            script: given("SIMULATED_AGENT_SCRIPT").map(PathBuf::from),
            misbehaviours: text("SIMULATED_AGENT_MISBEHAVE"),
            is_interactive: io::stdin().is_terminal() && io::stdout().is_terminal(),
            reentry,
        })
    }

    /// Returns the directories of Cursor's files. `--data-dir` moves the data root.
    pub fn roots(&self, data_dir: Option<&str>) -> Result<CursorRoots, RootsError> {
        let mut host = self.host.clone();
        if let Some(data_dir) = data_dir {
            host.cursor_data_dir = Some(OsString::from(data_dir));
        }
        CursorRoots::of_host(&host)
    }
}
