//! Runs and journals for tests.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use run_protocol::{
    AgentKind, AgentProgram, BytesPath, Epoch, RunEvent, RunId, RunLimits, RunOutcome, RunSpec,
    SessionStart, ToolApproval,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    AgentLine, EventNumber, JournalEntry, JournalReader, JournalWriter, LineEnding, Position,
    Progress, Redaction, RunDirectory, RunLock, StateRoot,
};

/// A state directory for one test.
pub(crate) struct TestState {
    pub(crate) state: StateRoot,
    _directory: TempDir,
}

impl TestState {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { state: StateRoot::new(directory.path().join("state")), _directory: directory }
    }

    pub(crate) fn create(&self) -> RunDirectory {
        RunDirectory::create(&self.state, &spec(RunId::generate()), b"fix the tests").unwrap()
    }

    /// A run whose name is `name`.
    pub(crate) fn create_named(&self, name: &str) -> RunDirectory {
        let spec = RunSpec { name: Some(name.to_owned()), ..spec(RunId::generate()) };
        RunDirectory::create(&self.state, &spec, b"fix the tests").unwrap()
    }

    /// A run that was created long ago.
    pub(crate) fn create_old(&self) -> RunDirectory {
        let run = "0191d0f6-0000-7000-8000-0123456789ab".parse().unwrap();
        RunDirectory::create(&self.state, &spec(run), b"fix the tests").unwrap()
    }
}

pub(crate) fn spec(run: RunId) -> RunSpec {
    RunSpec {
        run,
        created_ms: run.created_ms(),
        name: None,
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        session: Uuid::from_u128(0x6f1d_9c3e_5a52_4f0b_9a1e_2b7c_8d9e_0f11),
        session_start: SessionStart::New,
        workspace: "/home/user/project".to_owned(),
        worktree: None,
        saving: None,
        agent: AgentProgram {
            kind: AgentKind::Simulated,
            program: BytesPath::from("/usr/bin/caretaker"),
            leading_arguments: Vec::new(),
            expose: Vec::new(),
            kept: None,
            version: Some("2026.01.01".to_owned()),
        },
        model: Some("auto".to_owned()),
        mode: None,
        tool_approval: ToolApproval::Force,
        partial_output: false,
        extra_flags: Vec::new(),
        profile: "default".to_owned(),
        profile_text: String::new(),
        expose: Vec::new(),
        bwrap: BytesPath::from("/usr/bin/bwrap"),
        home: BytesPath::from("/home/user"),
        host_config_root: BytesPath::from("/home/user/.cursor"),
        login_file: None,
        policy: None,
        user_mcp: None,
        repository_mcp: Vec::new(),
        env: BTreeMap::new(),
        setup: None,
        certificates: BTreeMap::new(),
        home_files: BTreeMap::new(),
        fresh_cache: false,
        secrets: Vec::new(),
        network: None,
        allow_hosts: Vec::new(),
        registries: Vec::new(),
        known_registries: Vec::new(),
        resources: run_protocol::ResourceLimits::default(),
        limits: RunLimits::default(),
        wait_for_locks: false,
        retry_of: None,
        continues: None,
        restart: false,
        group: None,
        queue: None,
        lineage: None,
        delivers: Vec::new(),
        widened: Vec::new(),
        mcp_choice: Default::default(),
        socket_dir: BytesPath::from("/tmp/sockets"),
    }
}

/// An owned journal entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Seen {
    Header(Epoch),
    Agent(EventNumber, u64, OwnedLine, Redaction),
    Run(EventNumber, u64, RunEvent),
    UnknownRun(EventNumber, u64, String),
    Unreadable(u64, Vec<u8>),
}

/// An owned agent line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OwnedLine {
    Json(String),
    Text(String),
    Bytes(Vec<u8>),
    Cut { head: Vec<u8>, length: u64, sha256: [u8; 32] },
}

impl OwnedLine {
    pub(crate) fn borrowed(&self) -> AgentLine<'_> {
        match self {
            Self::Json(text) => AgentLine::Json(text.as_bytes()),
            Self::Text(text) => AgentLine::Text(text),
            Self::Bytes(bytes) => AgentLine::Bytes(bytes),
            Self::Cut { head, length, sha256 } => {
                AgentLine::Cut { head, length: *length, sha256: *sha256 }
            }
        }
    }
}

impl From<AgentLine<'_>> for OwnedLine {
    fn from(line: AgentLine<'_>) -> Self {
        match line {
            AgentLine::Json(bytes) => Self::Json(String::from_utf8_lossy(bytes).into_owned()),
            AgentLine::Text(text) => Self::Text(text.to_owned()),
            AgentLine::Bytes(bytes) => Self::Bytes(bytes.to_owned()),
            AgentLine::Cut { head, length, sha256 } => {
                Self::Cut { head: head.to_owned(), length, sha256 }
            }
        }
    }
}

impl From<JournalEntry<'_>> for Seen {
    fn from(entry: JournalEntry<'_>) -> Self {
        match entry {
            JournalEntry::Header(header) => Self::Header(header.epoch),
            JournalEntry::Agent { number, at, line, redaction, .. } => {
                Self::Agent(number, at, line.into(), redaction)
            }
            JournalEntry::Run { number, at, event, .. } => Self::Run(number, at, event),
            JournalEntry::UnknownRun { number, at, raw } => {
                Self::UnknownRun(number, at, raw.to_owned())
            }
            JournalEntry::Unreadable { offset, bytes, .. } => {
                Self::Unreadable(offset, bytes.to_owned())
            }
        }
    }
}

impl Seen {
    pub(crate) fn number(&self) -> Option<EventNumber> {
        match self {
            Self::Agent(number, ..) | Self::Run(number, ..) | Self::UnknownRun(number, ..) => {
                Some(*number)
            }
            Self::Header(_) | Self::Unreadable(..) => None,
        }
    }
}

/// Reads to the end.
pub(crate) fn drain(reader: &mut JournalReader) -> Vec<Seen> {
    let mut seen = Vec::new();
    while reader.next_batch(&mut |entry| seen.push(entry.into())).unwrap() == Progress::Advanced {}
    seen
}

pub(crate) fn read(directory: &RunDirectory, from: Position) -> Vec<Seen> {
    drain(&mut JournalReader::open(directory, from).unwrap())
}

pub(crate) fn read_file(path: &Path, from: Position) -> Vec<Seen> {
    drain(&mut JournalReader::over(File::open(path).unwrap(), from).unwrap())
}

pub(crate) fn numbers(seen: &[Seen]) -> Vec<EventNumber> {
    seen.iter().filter_map(Seen::number).collect()
}

/// An event number in the first epoch.
pub(crate) fn first(seq: u64) -> EventNumber {
    EventNumber { epoch: 1, seq }
}

pub(crate) fn writer(directory: &RunDirectory) -> (RunLock, JournalWriter) {
    let lock = directory.lock().unwrap();
    let writer = JournalWriter::open(directory, &lock).unwrap();
    (lock, writer)
}

pub(crate) fn add_json(writer: &mut JournalWriter, text: &str) -> EventNumber {
    writer.agent_line(
        7,
        AgentLine::Json(text.as_bytes()),
        LineEnding::LineFeed,
        Redaction::Untouched,
    )
}

pub(crate) fn ended() -> RunEvent {
    RunEvent::Ended {
        outcome: RunOutcome::Succeeded,
        why: "the agent gave a result".to_owned(),
        exit_code: Some(0),
        duration_ms: 1234,
        stderr_tail: String::new(),
    }
}

/// The project's journal fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/journal")
}
