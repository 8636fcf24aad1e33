//! What the exit codes of `caretaker` mean. The agent's own exit code is in the JSON, never forwarded.

/// The published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done; a run succeeded.
    Success = 0,
    /// The agent reported an error, or the command failed.
    Failed = 1,
    /// What was typed cannot be.
    Usage = 2,
    /// What was named is not there.
    NotFound = 3,
    /// Held by another run, or the name is taken.
    Conflict = 4,
    /// The run ended without a result, or was lost.
    Unknown = 5,
    /// The session cannot be resumed.
    NotResumable = 6,
    /// The agent did not remember the session it was to continue.
    Amnesia = 7,
    /// The daemon does not answer.
    DaemonUnavailable = 69,
    /// `wait --timeout` elapsed and the run goes on.
    StillRunning = 75,
    /// Nobody is logged in.
    AuthenticationMissing = 77,
    /// A time limit of the run was reached.
    TimedOut = 124,
    /// The sandbox or the supervisor failed before the agent ran, the journal failed, or a protection was taken away.
    SupervisorFailed = 125,
    /// The agent's program cannot be executed.
    AgentNotExecutable = 126,
    /// The agent's program is not there.
    AgentNotFound = 127,
    /// The run was stopped on request.
    Cancelled = 130,
    /// A quota was reached.
    QuotaExceeded = 137,
}

impl ExitCode {
    /// Every code there is, in the order of the table.
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
