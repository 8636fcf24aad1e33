//! The output of a running agent, and how far the shim has read it.

use std::collections::BTreeSet;

use agent_stream::AgentStream;
use run_protocol::RunSpec;

use crate::sandbox::setup::SetupOutput;
use crate::supervise::agent_line::Expected;

/// The most bytes of stdout in one read. They become one batch of the journal.
const CHUNK: usize = 256 * 1024;
/// The most bytes of stderr in one read.
const STDERR_CHUNK: usize = 16 * 1024;

/// The agent's output.
pub(crate) struct Output {
    pub(crate) chunk: Vec<u8>,
    pub(crate) stderr_chunk: Vec<u8>,
    pub(crate) stdout_open: bool,
    pub(crate) stderr_open: bool,
    /// True while the sandbox is alive.
    pub(crate) alive: bool,
    /// The output of the set-up command, until the agent's begins.
    pub(crate) setup: Option<SetupOutput>,
    pub(crate) stream: AgentStream,
    pub(crate) expected: Expected,
    /// The unknown events that the journal already names.
    pub(crate) drift: BTreeSet<String>,
}

impl Output {
    pub(crate) fn new(spec: &RunSpec) -> Self {
        Self {
            chunk: vec![0; CHUNK],
            stderr_chunk: vec![0; STDERR_CHUNK],
            stdout_open: true,
            stderr_open: true,
            alive: true,
            setup: spec.setup.as_ref().map(|_| SetupOutput::default()),
            stream: AgentStream::default(),
            expected: Expected::of(spec),
            drift: BTreeSet::new(),
        }
    }
}
