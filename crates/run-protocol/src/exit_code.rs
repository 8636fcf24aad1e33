//! The exit codes of `caretaker`. The agent's own exit code appears only in the JSON output.

/// The published table of exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done; a run succeeded.
    Success = 0,
    /// The agent reported an error, or the command failed.
    Failed = 1,
    /// The command line or the configuration is invalid.
    Usage = 2,
    /// A run, session or file that the command names does not exist.
    NotFound = 3,
    /// Another run holds the session or workspace, or the name is taken.
    Conflict = 4,
    /// The run ended without a result, or was lost.
    Unknown = 5,
    /// The session cannot be resumed.
    NotResumable = 6,
    /// The agent did not remember the session that it continued.
    Amnesia = 7,
    /// The daemon does not answer.
    DaemonUnavailable = 69,
    /// `wait --timeout` ran out of time, and the run goes on.
    StillRunning = 75,
    /// The agent is not logged in.
    AuthenticationMissing = 77,
    /// The run reached a time limit, or the agent repeated itself.
    TimedOut = 124,
    /// The sandbox or the shim failed before the agent ran, the journal failed, or a protection was removed.
    SupervisorFailed = 125,
    /// The agent's program cannot be executed.
    AgentNotExecutable = 126,
    /// The agent's program does not exist.
    AgentNotFound = 127,
    /// The user stopped the run.
    Cancelled = 130,
    /// The run exceeded a limit on the machine, on tool calls or on tokens.
    QuotaExceeded = 137,
}

impl ExitCode {
    /// Every code, in the order of the table.
    pub const ALL: [Self; 17] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::NotFound,
        Self::Conflict,
        Self::Unknown,
        Self::NotResumable,
        Self::Amnesia,
        Self::DaemonUnavailable,
        Self::StillRunning,
        Self::AuthenticationMissing,
        Self::TimedOut,
        Self::SupervisorFailed,
        Self::AgentNotExecutable,
        Self::AgentNotFound,
        Self::Cancelled,
        Self::QuotaExceeded,
    ];

    /// The code with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|code| *code as u8 == number)
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_by_their_numbers() {
        for code in ExitCode::ALL {
            assert_eq!(ExitCode::from_number(code as u8), Some(code));
        }
        assert_eq!(ExitCode::from_number(99), None);
    }
}
