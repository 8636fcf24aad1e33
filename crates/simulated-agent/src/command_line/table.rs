//! The options and subcommands cursor-agent has, the hidden ones included.

/// One option, described by its flags as commander is told them: `-p, --print`, `--resume [chatId]`.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionSpec {
    pub flags: &'static str,
    pub help: &'static str,
    /// Empty when any value will do.
    pub choices: &'static [&'static str],
    pub visibility: Visibility,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    InHelp,
    Hidden,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    Flag,
    Required,
    Optional,
}

impl OptionSpec {
    /// The long name without its dashes.
    pub fn long(&self) -> &'static str {
        let start = self.flags.find("--").map_or(0, |at| at + 2);
        self.flags[start..].split(' ').next().unwrap_or_default()
    }

    fn short(&self) -> Option<&'static str> {
        self.flags.split(", ").next().filter(|flag| !flag.starts_with("--"))
    }

    pub fn arity(&self) -> Arity {
        match self.flags.chars().last() {
            Some('>') => Arity::Required,
            Some(']') => Arity::Optional,
            _ => Arity::Flag,
        }
    }
}

/// One command: its words, its options and the commands below it.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandSpec {
    pub name: &'static str,
    pub alias: Option<&'static str>,
    /// `<server>` is required, `[prompt...]` takes whatever there is.
    pub words: &'static str,
    pub help: &'static str,
    pub options: &'static [OptionSpec],
    pub subcommands: &'static [Self],
    pub visibility: Visibility,
}

impl CommandSpec {
    pub(super) fn option(&self, flag: &str) -> Option<&'static OptionSpec> {
        self.options.iter().find(|option| {
            option.short() == Some(flag) || flag.strip_prefix("--") == Some(option.long())
        })
    }

    pub(super) fn subcommand(&self, name: &str) -> Option<&'static Self> {
        self.subcommands.iter().find(|command| command.name == name || command.alias == Some(name))
    }

    pub fn visible_options(&self) -> impl Iterator<Item = &'static OptionSpec> {
        self.options.iter().filter(|option| option.visibility == Visibility::InHelp)
    }

    /// Does nothing by itself: one of its subcommands has to be named.
    pub(super) fn is_a_group(&self) -> bool {
        !self.subcommands.is_empty() && !self.takes_words()
    }

    pub(super) fn takes_words(&self) -> bool {
        self.words.contains("...")
    }

    pub(super) fn required_words(&self) -> impl Iterator<Item = &'static str> {
        self.words.split(' ').filter_map(|word| word.strip_prefix('<')?.strip_suffix('>'))
    }
}

const fn visible(flags: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { flags, help, choices: &[], visibility: Visibility::InHelp }
}

const fn hidden(flags: &'static str) -> OptionSpec {
    OptionSpec { flags, help: "", choices: &[], visibility: Visibility::Hidden }
}

const fn choice(
    flags: &'static str,
    choices: &'static [&'static str],
    help: &'static str,
) -> OptionSpec {
    OptionSpec { flags, help, choices, visibility: Visibility::InHelp }
}

const fn command(name: &'static str, words: &'static str, help: &'static str) -> CommandSpec {
    CommandSpec {
        name,
        alias: None,
        words,
        help,
        options: &[],
        subcommands: &[],
        visibility: Visibility::InHelp,
    }
}

const fn internal(name: &'static str, words: &'static str) -> CommandSpec {
    CommandSpec { visibility: Visibility::Hidden, ..command(name, words, "") }
}

const FORMAT: &[OptionSpec] =
    &[choice("--format <format>", &["text", "json"], "Output format: text or json")];

/// The command itself: a prompt, unless the first word names a subcommand.
pub static AGENT: CommandSpec = CommandSpec {
    name: "agent",
    alias: None,
    words: "[prompt...]",
    help: "Start the Cursor Agent (simulated: no model, no network, a script instead)",
    options: AGENT_OPTIONS,
    subcommands: SUBCOMMANDS,
    visibility: Visibility::InHelp,
};

const AGENT_OPTIONS: &[OptionSpec] = &[
    visible("-v, --version", "Print the version number"),
    visible("--api-key <key>", "API key (or CURSOR_API_KEY)"),
    visible(
        "-H, --header <header>",
        "Extra request header 'Name: Value', repeatable (accepted, never sent)",
    ),
    visible("-e, --endpoint <url>", "API endpoint (accepted, never contacted)"),
    visible("-p, --print", "Print to the console without a terminal interface"),
    visible("--output-format <format>", "With --print: text, json or stream-json"),
    visible("--stream-partial-output", "With --print and stream-json: stream text as it comes"),
    choice("--mode <mode>", &["plan", "ask"], "Read-only mode: plan or ask"),
    visible("--plan", "Shorthand for --mode plan"),
    visible("--resume [chatId]", "Resume a session by id, or the Nth latest with =-N"),
    visible("--continue", "Resume the latest session of this workspace"),
    visible("--model <id>", "Model to use"),
    visible("--list-models", "List the models and exit"),
    visible("-f, --force", "Run everything that is not denied"),
    visible("--yolo", "Alias of --force"),
    visible("--auto-review", "Let a classifier review tool calls (accepted, not simulated)"),
    choice(
        "--sandbox <mode>",
        &["enabled", "disabled"],
        "Sandbox of shell commands (accepted, not simulated)",
    ),
    visible("--approve-mcps", "Approve all MCP servers"),
    visible("--trust", "Trust this workspace"),
    visible("--workspace <path>", "Workspace directory instead of the current one"),
    visible("--add-dir <path>", "Another root directory, repeatable (accepted, not simulated)"),
    visible("--plugin-dir <path>", "Load a local plugin, repeatable (accepted, not simulated)"),
    visible("-w, --worktree [name]", "Run in a new git worktree (not simulated)"),
    visible("--worktree-base <ref>", "Where the worktree starts (accepted, not simulated)"),
    visible("--skip-worktree-setup", "Run no worktree set-up scripts (accepted, not simulated)"),
    visible("--help-scenarios", "Simulated agent only: list the ways it can misbehave"),
    visible("--help-script", "Simulated agent only: how to write a script"),
    hidden("--new-session-id <uuid>"),
    hidden("--single-turn"),
    hidden("--background-shell-timeout <seconds>"),
    hidden("--disable-project-configs"),
    hidden("--data-dir <path>"),
    hidden("--allowed-tools <tools>"),
    hidden("--exclude-tools <tools>"),
    hidden("--show-thinking"),
    hidden("--printenv"),
    hidden("--auth-token <token>"),
    hidden("--harness <name>"),
    hidden("--computer-use-coords <coords>"),
    hidden("--dev-raw-model-slug <slug>"),
    hidden("-c, --cloud"),
    hidden("-b, --background"),
    hidden("--repo-http-version <version>"),
    hidden("--insecure"),
    hidden("--system-prompt <file>"),
    hidden("--exclude-workspace-context"),
    hidden("--conversation-history-file <file>"),
];

const SUBCOMMANDS: &[CommandSpec] = &[
    command("persist", "[words...]", "Not simulated"),
    command("install-shell-integration", "", "Not simulated"),
    command("uninstall-shell-integration", "", "Not simulated"),
    command("login", "", "Not simulated: write auth.json or set CURSOR_API_KEY"),
    command("logout", "", "Not simulated"),
    CommandSpec { subcommands: MCP_COMMANDS, ..command("mcp", "", "Manage MCP servers") },
    command("plugin", "[words...]", "Not simulated"),
    command("worker", "[words...]", "Not simulated"),
    CommandSpec {
        alias: Some("whoami"),
        options: FORMAT,
        ..command("status", "", "Show whether somebody is logged in")
    },
    command("models", "", "List the models"),
    command("team", "[words...]", "Not simulated"),
    command("bedrock", "[words...]", "Not simulated"),
    CommandSpec { options: FORMAT, ..command("about", "", "Show version, system and account") },
    command("update", "", "Not simulated: the simulated agent is built with Caretaker"),
    command("create-chat", "", "Create an empty chat and print its id"),
    CommandSpec { alias: Some("rule"), ..command("generate-rule", "", "Not simulated") },
    command("agent", "[prompt...]", "Start the agent"),
    command("ls", "", "Choose a session to resume (needs a terminal)"),
    command("resume", "", "Resume the latest session (needs a terminal)"),
    internal("acp", "[words...]"),
    internal("sandbox", "[words...]"),
    internal("worker-server", "<socket>"),
    internal("deaf-child", "<log>"),
];

const MCP_COMMANDS: &[CommandSpec] = &[
    command("login", "<server>", "Not simulated"),
    command("list", "", "List the MCP servers and their state"),
    command("list-tools", "<server>", "List the tools of one server"),
    command("enable", "<server>", "Approve a server for this workspace"),
    command("disable", "<server>", "Disable a server for this workspace"),
];
