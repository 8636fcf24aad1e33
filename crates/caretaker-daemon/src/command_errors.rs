//! Converts the daemon's errors into command errors.

use std::error::Error;

use admission::command_error::CommandError;
use run_journal::InboxError;
use run_protocol::ExitCode;

use crate::messages::MessageError;
use crate::server::serve::ServeError;

impl From<ServeError> for CommandError {
    fn from(error: ServeError) -> Self {
        let code = match &error {
            ServeError::NotLoopback(_) => ExitCode::Usage,
            ServeError::AlreadyThere(_) => ExitCode::Conflict,
            _ => ExitCode::DaemonUnavailable,
        };
        Self::new(code, "the daemon cannot run").because(error)
    }
}

impl From<MessageError> for CommandError {
    fn from(error: MessageError) -> Self {
        let (code, hint) = match &error {
            MessageError::NoQuestion(_) | MessageError::Inbox(InboxError::NoSuchQuestion(_)) => {
                (ExitCode::NotFound, "list the open questions with `caretaker inbox`".to_owned())
            }
            MessageError::AsksNothing(_) => {
                (ExitCode::NotFound, "write to it with `caretaker send`".to_owned())
            }
            MessageError::AsksMore { questions, .. } => {
                (ExitCode::Usage, format!("name the one you mean: {}", questions.join(", ")))
            }
            MessageError::Inbox(InboxError::Answered(_)) => {
                (ExitCode::Conflict, "say more with `caretaker send`".to_owned())
            }
            MessageError::Inbox(InboxError::Full) => {
                (ExitCode::Conflict, "list the waiting messages with `caretaker inbox`".to_owned())
            }
            _ => (ExitCode::Failed, "check with `caretaker doctor`".to_owned()),
        };
        let failed = Self::new(code, error.to_string()).hint(hint);
        match error.source() {
            Some(source) => failed.because(source.to_string()),
            None => failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_is_a_conflict_and_says_so() {
        let error = CommandError::from(ServeError::AlreadyThere(None));
        let text = "error: the daemon cannot run\n  because a daemon already serves this state directory\n";
        assert_eq!((error.exit_code(), error.text().as_str()), (ExitCode::Conflict, text));
    }
}
