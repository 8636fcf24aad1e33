//! The inputs and the effects of the state machine.

use crate::supervise::finished_call::FinishedCall;
use run_protocol::{BytesPath, LimitKind, RunEvent, RunOutcome, SignalName, StopManner};

/// The meaning of one of the agent's lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentSign {
    Init {
        is_the_asked_session: bool,
    },
    ToolStarted {
        call_id: String,
        name: String,
        declared_ms: Option<u64>,
    },
    ToolCompleted {
        call_id: String,
        /// `None` if the call says nothing about a loop.
        call: Option<FinishedCall>,
    },
    /// The last segment of the answer. Only the result is still missing.
    FinalText,
    /// The result, with the tokens that the agent used, if it reports them.
    Result {
        is_error: bool,
        tokens: Option<u64>,
    },
    /// Any other line. It is a sign of life.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// The shim verified the sandbox and released the agent.
    Released,
    Agent(AgentSign),
    /// The agent called one of the shim's tools.
    SignOfLife,
    StdoutClosed,
    /// The sandbox is gone. The exit code is `None` if bwrap did not report it.
    Exited {
        exit_code: Option<i32>,
    },
    Stop(StopManner),
    /// Stop so that the session can be resumed.
    Suspend,
    /// Stop because the shim must end. The second time, kill immediately.
    Interrupt,
    /// The store shows that the agent does not continue the conversation.
    Forgotten,
    /// The sandbox exceeds a limit.
    Exceeded(LimitKind),
    /// The sandbox is gone, and the kernel's counters show that it exceeded a limit.
    HadExceeded(LimitKind),
    /// A file in the workspace lost its protection, and the shim could not put it back.
    ProtectionLost(BytesPath),
    /// The shim could not write a batch to the journal.
    JournalFailed,
    /// The run lost the session's lease.
    LeaseLost,
    /// The shim did not run for this long: it was stopped, frozen or had no processor. It could not see the agent's
    /// output, so this time does not count as silence.
    Absent {
        ms: u64,
    },
    /// A deadline may have passed.
    Tick,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Record(RunEvent),
    /// Make the journal durable before going on: the result is in it.
    Sync,
    /// Signals the agent's process inside the sandbox, not bwrap and not the namespace's first process.
    SignalAgent(SignalName),
    KillSandbox,
    End(Ending),
}

/// The end of a run, as far as the state machine can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Decided(RunOutcome),
    /// The process ended on its own without a result. Its exit code and stderr say why.
    ByItself {
        exit_code: Option<i32>,
        was_released: bool,
    },
}
