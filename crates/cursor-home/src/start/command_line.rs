//! The agent's arguments, for a first run and for a resumed one.

use std::ffi::OsString;

use run_protocol::{AgentMode, ToolApproval};
use uuid::Uuid;

use crate::start::extra_flags::ExtraFlags;
use crate::workspace::WorkspacePath;

/// One turn of the agent, without its prompt. The prompt goes to standard input, where neither `ps` nor a parser sees
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// Must also be the process's working directory, because agent versions differ in which of the two they use.
    pub workspace: WorkspacePath,
    /// A fresh UUIDv4 starts a session under that id; a known one continues it.
    pub session: Uuid,
    pub model: Option<ModelSlug>,
    /// `None`: the agent may change files.
    pub mode: Option<AgentMode>,
    pub tool_approval: ToolApproval,
    pub partial_output: PartialOutput,
    pub server_approval: ServerApproval,
    pub extra: ExtraFlags,
}

/// Which MCP servers are approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerApproval {
    /// All servers. In this case the agent finds only ours.
    All,
    /// The servers that the user has approved.
    UsersOwn,
}

/// Whether the agent also prints text token by token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartialOutput {
    #[default]
    Off,
    On,
}

impl AgentCommand {
    /// Returns the arguments after the program's name.
    pub fn args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        args.extend(["--print", "--output-format", "stream-json"].map(OsString::from));
        if self.partial_output == PartialOutput::On {
            args.push("--stream-partial-output".into());
        }
        args.push("--trust".into());
        if self.tool_approval == ToolApproval::Force {
            args.push("--force".into());
        }
        if self.server_approval == ServerApproval::All {
            args.push("--approve-mcps".into());
        }
        args.extend(["--sandbox", "disabled"].map(OsString::from));
        args.extend(["--workspace".into(), self.workspace.as_path().into()]);
        if let Some(model) = &self.model {
            args.extend(["--model", model.as_str()].map(OsString::from));
        }
        match self.mode {
            None => {}
            Some(AgentMode::Plan) => args.extend(["--mode", "plan"].map(OsString::from)),
            Some(AgentMode::Ask) => args.extend(["--mode", "ask"].map(OsString::from)),
        }
        args.extend(["--resume".into(), self.session.to_string().into()]);
        // Last, so that an unknown flag that takes a value cannot swallow one of our flags.
        args.extend_from_slice(self.extra.words());
        args
    }
}

/// The agent's name for a model. It cannot be mistaken for a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSlug(String);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` cannot be the name of a model", .0.escape_debug())]
pub struct ModelSlugError(pub String);

impl ModelSlug {
    /// Checks only the form. Only Cursor's server knows which models exist, and it compares byte for byte.
    pub fn parse(text: &str) -> Result<Self, ModelSlugError> {
        let is_wrong = text.is_empty()
            || text.starts_with('-')
            || text.contains(|c: char| c.is_control() || c.is_whitespace());
        if is_wrong { Err(ModelSlugError(text.to_owned())) } else { Ok(Self(text.to_owned())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use std::path::Path;

    const SESSION: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

    fn plain() -> AgentCommand {
        AgentCommand {
            workspace: WorkspacePath::new(Path::new("/srv/my work")).unwrap(),
            session: Uuid::parse_str(SESSION).unwrap(),
            model: None,
            mode: None,
            tool_approval: ToolApproval::Force,
            partial_output: PartialOutput::Off,
            server_approval: ServerApproval::All,
            extra: ExtraFlags::default(),
        }
    }

    #[test]
    fn a_plain_run_has_the_flags_that_every_run_has() {
        assert_eq!(
            plain().args(),
            [
                "--print",
                "--output-format",
                "stream-json",
                "--trust",
                "--force",
                "--approve-mcps",
                "--sandbox",
                "disabled",
                "--workspace",
                "/srv/my work",
                "--resume",
                SESSION,
            ]
        );
    }

    #[test]
    fn every_choice_adds_its_arguments() {
        let command = AgentCommand {
            model: Some(ModelSlug::parse("gpt-5[effort=high]").unwrap()),
            mode: Some(AgentMode::Plan),
            tool_approval: ToolApproval::AllowList,
            partial_output: PartialOutput::On,
            server_approval: ServerApproval::UsersOwn,
            extra: ExtraFlags::check(["--single-turn".into()]).unwrap(),
            ..plain()
        };
        assert_eq!(
            command.args(),
            [
                "--print",
                "--output-format",
                "stream-json",
                "--stream-partial-output",
                "--trust",
                "--sandbox",
                "disabled",
                "--workspace",
                "/srv/my work",
                "--model",
                "gpt-5[effort=high]",
                "--mode",
                "plan",
                "--resume",
                SESSION,
                "--single-turn",
            ]
        );
        let ask = AgentCommand { mode: Some(AgentMode::Ask), ..plain() }.args();
        assert!(ask.windows(2).any(|pair| pair == ["--mode", "ask"]));
    }

    #[test]
    fn a_user_cannot_pass_any_flag_that_caretaker_sets_itself() {
        let ours = AgentCommand {
            model: Some(ModelSlug::parse("auto").unwrap()),
            mode: Some(AgentMode::Ask),
            partial_output: PartialOutput::On,
            ..plain()
        };
        let args = ours.args();
        for flag in args.iter().filter(|arg| arg.as_encoded_bytes().starts_with(b"--")) {
            assert!(ExtraFlags::check([flag.clone()]).is_err(), "{flag:?}");
        }
    }

    #[test]
    fn a_model_cannot_smuggle_a_flag() {
        for text in ["", "-p", "--print", "a b", "a\nb"] {
            assert_eq!(ModelSlug::parse(text), Err(ModelSlugError(text.to_owned())));
        }
        assert_eq!(ModelSlug::parse("composer-1").unwrap().as_str(), "composer-1");
    }
}
