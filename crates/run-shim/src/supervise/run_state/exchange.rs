//! What goes into the machine, and what comes out of it.

use run_protocol::{BytesPath, LimitKind, RunEvent, RunOutcome, SignalName, StopManner};

/// What the machine needs to know of a line of the agent's.
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
    },
    /// A last segment of the answer: the turn is over but for its result.
    FinalText,
    /// What it says of the tokens it took, if anything.
    Result {
        is_error: bool,
        tokens: Option<u64>,
    },
    /// Any other line: a sign of life.
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// The sandbox was verified and the agent let go.
    Released,
    Agent(AgentSign),
    /// The agent called one of our tools.
    SignOfLife,
    StdoutClosed,
    /// The sandbox is gone. `None`: it ended without saying how the agent did.
    Exited {
        exit_code: Option<i32>,
    },
    Stop(StopManner),
    /// Stop so that the session can be taken up again.
    Suspend,
    /// Stop because the supervisor is to end; told twice, at once.
    Interrupt,
    /// The store shows that the agent does not continue the conversation.
    Forgotten,
    /// The sandbox takes more of the machine than it may.
    Exceeded(LimitKind),
    /// It did, and is gone: what the kernel counted says so.
    HadExceeded(LimitKind),
    /// Something in the workspace is not protected any more.
    ProtectionLost(BytesPath),
    /// A batch could not be written to the journal.
    JournalFailed,
    /// The session's lease is not the run's any more.
    LeaseLost,
    /// We did not run for so long, up to now: stopped, frozen or without a processor. Nobody could have seen the agent
    /// work meanwhile, so it counts as no silence.
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
    /// To the payload inside, not to bwrap and not to the namespace's pid 1.
    SignalAgent(SignalName),
    KillSandbox,
    End(Ending),
}

/// How a run ended, as far as the machine can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Decided(RunOutcome),
    /// The process ended by itself without a result; its exit code and stderr say why.
    ByItself {
        exit_code: Option<i32>,
        was_released: bool,
    },
}
