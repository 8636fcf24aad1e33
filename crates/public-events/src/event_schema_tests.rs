use std::collections::BTreeSet;
use std::path::Path;

use agent_stream::EventName;
use pretty_assertions::assert_eq;
use run_protocol::{
    Audit, Bound, ChangeCounts, Checkpoint, FailureClass, Finding, FindingKind, HandOver,
    JournalHeader, LimitBackend, LimitKind, LimitsInForce, LoginDrop, McpCallOutcome, McpRefusal,
    NetRefusal, NetVia, NetworkMode, PendingTool, QuestionAbout, RepeatedCall, ReportedStatus,
    ResourceLimits, Resumable, RunEvent, RunId, RunOutcome, SignalName, Spend, StopReason,
    Widening,
};
use serde_json::Value;

use super::*;

const FIXTURE: &str = "../../fixtures/events/schema-v1.jsonl";

/// One agent line of each kind. A new kind does not compile without an example.
fn agent_example(name: EventName) -> &'static str {
    match name {
        EventName::Init => {
            r#"{"type":"system","subtype":"init","apiKeySource":"env","cwd":"/home/ada/project","session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","model":"Auto","permissionMode":"default"}"#
        }
        EventName::User => {
            r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"fix the tests"}]},"session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11"}"#
        }
        EventName::Assistant => {
            r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"I'll run them first."}]},"session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","model_call_id":"m1","timestamp_ms":1790000001000}"#
        }
        EventName::ThinkingDelta => {
            r#"{"type":"thinking","subtype":"delta","text":"Which tests?","session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","timestamp_ms":1790000000900}"#
        }
        EventName::ThinkingCompleted => {
            r#"{"type":"thinking","subtype":"completed","session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","timestamp_ms":1790000000950}"#
        }
        EventName::ToolStarted => {
            r#"{"type":"tool_call","subtype":"started","call_id":"call_1\nfc_2","tool_call":{"shellToolCall":{"args":{"command":"cargo test","timeout":60000}}},"model_call_id":"m1","session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","timestamp_ms":1790000001100}"#
        }
        EventName::ToolCompleted => {
            r#"{"type":"tool_call","subtype":"completed","call_id":"call_1\nfc_2","tool_call":{"shellToolCall":{"args":{"command":"cargo test","timeout":60000},"result":{"failure":{"exitCode":101,"stderr":"error"}}}},"model_call_id":"m1","session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","timestamp_ms":1790000005300}"#
        }
        EventName::QueryRequest => {
            r#"{"type":"interaction_query","subtype":"request","query_type":"webFetchRequestQuery","query":{"id":0,"webFetchRequestQuery":{"args":{"url":"https://example.com"}}},"timestamp_ms":1790000005400}"#
        }
        EventName::QueryResponse => {
            r#"{"type":"interaction_query","subtype":"response","query_type":"webFetchRequestQuery","response":{"id":0,"webFetchRequestResponse":{"rejected":{"reason":"not allowed"}}},"timestamp_ms":1790000005500}"#
        }
        EventName::Reconnecting => {
            r#"{"type":"connection","subtype":"reconnecting","attempt":1,"endpoint_url":"https://agent.example.com","timestamp_ms":1790000005600}"#
        }
        EventName::Reconnected => {
            r#"{"type":"connection","subtype":"reconnected","timestamp_ms":1790000005700}"#
        }
        EventName::Retry => {
            r#"{"type":"retry","subtype":"starting","attempt":1,"is_resume":true,"timestamp_ms":1790000005800}"#
        }
        EventName::TaskNotification => {
            r#"{"type":"system","subtype":"task_notification","task":"t1","timestamp_ms":1790000005900}"#
        }
        EventName::BackgroundShellTimeout => {
            r#"{"type":"system","subtype":"background_shell_timeout","aborted_count":1,"timeout_ms":30000,"timestamp_ms":1790000006000}"#
        }
        EventName::Result => {
            r#"{"type":"result","subtype":"success","duration_ms":6000,"duration_api_ms":6000,"is_error":false,"result":"I'll run them first.","session_id":"6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11","request_id":"r1","usage":{"inputTokens":14921,"outputTokens":806,"cacheReadTokens":51840,"cacheWriteTokens":0}}"#
        }
        EventName::Error => r#"{"type":"error","message":"something broke"}"#,
        EventName::Unknown => r#"{"type":"brand","subtype":"new","value":1}"#,
        EventName::Noise => "(node:1) Warning: something is deprecated",
        EventName::Oversized => {
            r#"{"type":"tool_call","subtype":"completed","call_id":"call_3","tool_call":{"editToo"#
        }
        EventName::Blank => "",
    }
}

const AGENT_KINDS: [EventName; 20] = [
    EventName::Init,
    EventName::User,
    EventName::Assistant,
    EventName::ThinkingDelta,
    EventName::ThinkingCompleted,
    EventName::ToolStarted,
    EventName::ToolCompleted,
    EventName::QueryRequest,
    EventName::QueryResponse,
    EventName::Reconnecting,
    EventName::Reconnected,
    EventName::Retry,
    EventName::TaskNotification,
    EventName::BackgroundShellTimeout,
    EventName::Result,
    EventName::Error,
    EventName::Unknown,
    EventName::Noise,
    EventName::Oversized,
    EventName::Blank,
];

fn agent_line(name: EventName) -> AgentLine<'static> {
    let text = agent_example(name);
    match name {
        EventName::Noise | EventName::Blank => AgentLine::Text(text),
        EventName::Oversized => {
            AgentLine::Cut { head: text.as_bytes(), length: 20_000_000, sha256: [0xab; 32] }
        }
        _ => AgentLine::Json(text.as_bytes()),
    }
}

/// One run event of each kind, in the order of a run.
fn run_examples() -> Vec<RunEvent> {
    let text = |text: &str| text.to_owned();
    vec![
        RunEvent::Created {
            session: text("6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11"),
            workspace: "/home/ada/project".into(),
            profile: text("default"),
            agent: "/home/ada/.local/share/cursor-agent/versions/2026.10.01-e373342/cursor-agent"
                .into(),
            agent_version: Some(text("2026.10.01-e373342")),
            model: Some(text("auto")),
            name: Some(text("nightly")),
            prompt_length: 13,
            prompt_start: text("fix the tests"),
        },
        RunEvent::Waiting { reason: text("the workspace is held by another run") },
        RunEvent::SandboxReady {
            profile: text("default"),
            sandbox_pid: 4242,
            mounts: 42,
            network: Some(NetworkMode::Allowlist),
            caches: vec![text("cargo")],
            limits: Some(LimitsInForce {
                backend: LimitBackend::CgroupV1,
                held: ResourceLimits {
                    memory_bytes: 4 << 30,
                    processes: 512,
                    cpu_weight: 100,
                    ..ResourceLimits::default()
                },
            }),
            warnings: vec![text("bubblewrap 0.8.0 has a known hole")],
        },
        RunEvent::Resuming {
            root: "5e".repeat(32),
            messages: 4,
            pending: vec![PendingTool { tool: text("shell"), subject: text("npm test") }],
        },
        RunEvent::Released,
        RunEvent::PromptSent { length: 13 },
        RunEvent::Slow { silent_ms: 60_000, tool: Some(text("shell")) },
        RunEvent::ProtocolDrift { event: text("brand/new") },
        RunEvent::LimitReached {
            limit: LimitKind::Tool { name: text("shell") },
            after_ms: 7_200_000,
        },
        RunEvent::SettledWithoutResult { silent_ms: 120_000 },
        RunEvent::StreamClosed,
        RunEvent::Lingered { ms: 5_000 },
        RunEvent::StopRequested { reason: StopReason::Cancelled },
        RunEvent::Signalled { signal: SignalName::Int, target: text("the agent") },
        RunEvent::McpCall { tool: text("report_progress"), outcome: McpCallOutcome::Ok, why: None },
        RunEvent::Progress { text: text("half way"), percent: Some(50.0) },
        RunEvent::Reported {
            status: ReportedStatus::Done,
            summary: text("all tests pass"),
            artifacts: vec![text("report.md")],
        },
        RunEvent::NetAllowed {
            host: Some(text("api2.cursor.sh")),
            port: Some(443),
            via: NetVia::Tls,
            count: 1,
        },
        RunEvent::NetDenied {
            host: Some(text("registry.example.org")),
            port: Some(443),
            via: NetVia::Connect,
            reason: NetRefusal::NotListed,
            detail: None,
            count: 3,
        },
        RunEvent::DiskFull,
        RunEvent::RootPutBack { from: Some("a0".repeat(32)), to: "5e".repeat(32) },
        RunEvent::WorkspaceSaved {
            files: 1204,
            new_bytes: 5120,
            ms: 18,
            left_out: vec!["vendor/lib/.git".into()],
        },
        RunEvent::WorkspaceNotSaved { reason: text("git is not installed") },
        RunEvent::Audit(Audit {
            changes: Some(ChangeCounts { added: 2, changed: 3, removed: 1 }),
            findings: vec![
                Finding {
                    what: FindingKind::LinkOut,
                    path: "data".into(),
                    target: Some("/etc".into()),
                    was: None,
                },
                Finding {
                    what: FindingKind::RefMoved,
                    path: "refs/heads/main".into(),
                    target: None,
                    was: Some("5e".repeat(20)),
                },
            ],
            more: 1,
            incomplete: Some(text("`target`: there was no time to look at all of it")),
        }),
        RunEvent::Checkpoint(Checkpoint {
            session: text("6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11"),
            root: Some("5e".repeat(32)),
            messages: 4,
            turns: 1,
            pending: vec![PendingTool { tool: text("shell"), subject: text("sleep 600") }],
            resumable: Resumable::Yes,
        }),
        RunEvent::Ended {
            outcome: RunOutcome::Failed { class: FailureClass::RateLimited },
            why: text("the agent was rate limited"),
            exit_code: Some(1),
            duration_ms: 12_345,
            stderr_tail: text("RetriableError: [resource_exhausted] Error\n"),
        },
        RunEvent::Queued { priority: 3 },
        RunEvent::Attempt { number: 1 },
        RunEvent::McpRefused { reason: McpRefusal::Oversized, count: 2 },
        RunEvent::NeedsHuman {
            question: text("q-1a2b3c4d"),
            about: QuestionAbout::Work,
            text: text("Which database?"),
            options: vec![text("the old one"), text("the new one")],
            host: None,
        },
        RunEvent::MessageSent {
            to: "0191d0f6-2222-7000-8000-0123456789ab".parse().unwrap(),
            message: text("5b1c7f0e-2d0f-4f43-8d7a-0c8f6a1e9b11"),
            text: text("the parser is done"),
        },
        RunEvent::MessagesDelivered {
            by: HandOver::CheckInbox,
            messages: vec![text("5b1c7f0e-2d0f-4f43-8d7a-0c8f6a1e9b12")],
            answers: vec![text("q-1a2b3c4d")],
        },
        RunEvent::ChildQueued {
            run: "0191d0f6-2222-7000-8000-0123456789ab".parse().unwrap(),
            name: Some(text("parser")),
        },
        RunEvent::ChildStopped { run: "0191d0f6-2222-7000-8000-0123456789ab".parse().unwrap() },
        RunEvent::WorkspaceMarked { label: text("green"), number: 1, files: 12, ms: 40 },
        RunEvent::Spent(Spend { tool_calls: Some(7), time_ms: Some(12_000), tokens: Some(68_000) }),
        RunEvent::ProtectionLost { path: "/home/ada/project/.git/config".into() },
        RunEvent::LoginCarriedBack { kept: text("5b1c7f0e") },
        RunEvent::LoginDropped { reason: LoginDrop::OtherAccount, count: 1 },
        RunEvent::Widened {
            bounds: vec![Widening {
                bound: Bound::Memory,
                from: text("512.0 MiB"),
                to: text("2.0 GiB"),
            }],
        },
        RunEvent::McpChanged {
            enabled: vec![text("notes")],
            disabled: vec![text("slack")],
            servers: vec![text("caretaker"), text("notes")],
        },
        RunEvent::SetupOutput { text: text("added 120 packages in 3s") },
        RunEvent::ProtectionRestored { path: "/home/ada/project/.git/config".into() },
        RunEvent::Looping {
            calls: vec![RepeatedCall { tool: text("shell"), subject: text("cargo test") }],
            in_a_row: 12,
        },
        RunEvent::BucketDrift {
            bucket: "b0".repeat(32),
            directory: "/home/ada/.local/state/caretaker/chats/b0/6f1d".into(),
        },
    ]
}

/// Returns the event's index in [`run_examples`]. A new kind of event does not compile until it has one.
fn place_of(event: &RunEvent) -> usize {
    match event {
        RunEvent::Created { .. } => 0,
        RunEvent::Waiting { .. } => 1,
        RunEvent::SandboxReady { .. } => 2,
        RunEvent::Resuming { .. } => 3,
        RunEvent::Released => 4,
        RunEvent::PromptSent { .. } => 5,
        RunEvent::Slow { .. } => 6,
        RunEvent::ProtocolDrift { .. } => 7,
        RunEvent::LimitReached { .. } => 8,
        RunEvent::SettledWithoutResult { .. } => 9,
        RunEvent::StreamClosed => 10,
        RunEvent::Lingered { .. } => 11,
        RunEvent::StopRequested { .. } => 12,
        RunEvent::Signalled { .. } => 13,
        RunEvent::McpCall { .. } => 14,
        RunEvent::Progress { .. } => 15,
        RunEvent::Reported { .. } => 16,
        RunEvent::NetAllowed { .. } => 17,
        RunEvent::NetDenied { .. } => 18,
        RunEvent::DiskFull => 19,
        RunEvent::RootPutBack { .. } => 20,
        RunEvent::WorkspaceSaved { .. } => 21,
        RunEvent::WorkspaceNotSaved { .. } => 22,
        RunEvent::Audit(_) => 23,
        RunEvent::Checkpoint(_) => 24,
        RunEvent::Ended { .. } => 25,
        RunEvent::Queued { .. } => 26,
        RunEvent::Attempt { .. } => 27,
        RunEvent::McpRefused { .. } => 28,
        RunEvent::NeedsHuman { .. } => 29,
        RunEvent::MessageSent { .. } => 30,
        RunEvent::MessagesDelivered { .. } => 31,
        RunEvent::ChildQueued { .. } => 32,
        RunEvent::ChildStopped { .. } => 33,
        RunEvent::WorkspaceMarked { .. } => 34,
        RunEvent::Spent(_) => 35,
        RunEvent::ProtectionLost { .. } => 36,
        RunEvent::LoginCarriedBack { .. } => 37,
        RunEvent::LoginDropped { .. } => 38,
        RunEvent::Widened { .. } => 39,
        RunEvent::McpChanged { .. } => 40,
        RunEvent::SetupOutput { .. } => 41,
        RunEvent::ProtectionRestored { .. } => 42,
        RunEvent::Looping { .. } => 43,
        RunEvent::BucketDrift { .. } => 44,
    }
}

fn printed(entries: &[JournalEntry<'_>]) -> String {
    let mut writer = EventWriter::default();
    let mut out = Vec::new();
    for entry in entries {
        writer.write(&mut out, entry).unwrap();
    }
    String::from_utf8(out).unwrap()
}

fn examples() -> String {
    let mut entries = Vec::new();
    let mut seq = 0;
    let mut number = || {
        seq += 1;
        EventNumber { epoch: 1, seq }
    };
    for (place, event) in run_examples().into_iter().enumerate() {
        assert_eq!(place_of(&event), place);
        let number = number();
        entries.push(JournalEntry::Run {
            number,
            at: 1_790_000_000_000 + number.seq,
            event,
            raw: "",
            redaction: Redaction::Untouched,
        });
    }
    for name in AGENT_KINDS {
        let number = number();
        entries.push(JournalEntry::Agent {
            number,
            at: 1_790_000_000_000 + number.seq,
            line: agent_line(name),
            ending: LineEnding::LineFeed,
            redaction: Redaction::Untouched,
        });
    }
    entries.push(JournalEntry::Unreadable { offset: 4096, length: 9, bytes: b"{\"seq\":7," });
    printed(&entries)
}

#[test]
fn every_kind_is_printed_as_the_published_examples_show() {
    let examples = examples();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURE);
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    if examples != published {
        let beside = std::env::temp_dir().join("schema-v1.jsonl");
        std::fs::write(&beside, &examples).unwrap();
        eprintln!("the current output was written to {}", beside.display());
    }
    assert_eq!(
        examples, published,
        "the public form of events changed: this needs a new version, unless it only adds something"
    );
}

#[test]
fn each_example_has_a_different_kind_and_the_common_fields() {
    let mut kinds = BTreeSet::new();
    for line in examples().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["v"], 1, "{line}");
        let kind = event["kind"].as_str().unwrap().to_owned();
        if kind != "journal.unreadable" {
            for key in ["seq", "epoch", "at"] {
                assert!(event[key].is_u64(), "{key} of {line}");
            }
        }
        assert!(kinds.insert(kind), "{line}");
    }
    assert_eq!(kinds.len(), 20 + 45 + 1);
}

#[test]
fn a_redacted_line_says_so_and_a_later_epoch_has_its_number() {
    let entry = JournalEntry::Agent {
        number: EventNumber { epoch: 2, seq: 9 },
        at: 5,
        line: AgentLine::Json(br#"{"type":"thinking","subtype":"completed"}"#),
        ending: LineEnding::LineFeed,
        redaction: Redaction::Redacted,
    };
    assert_eq!(
        printed(&[entry]),
        "{\"v\":1,\"seq\":9,\"epoch\":2,\"at\":5,\"redacted\":true,\"kind\":\"agent.thinking_completed\"}\n"
    );
    let entry = JournalEntry::Run {
        number: EventNumber { epoch: 1, seq: 9 },
        at: 5,
        event: RunEvent::Released,
        raw: "",
        redaction: Redaction::Redacted,
    };
    assert_eq!(
        printed(&[entry]),
        "{\"v\":1,\"seq\":9,\"epoch\":1,\"at\":5,\"redacted\":true,\"kind\":\"run.released\"}\n"
    );
}

#[test]
fn events_of_a_newer_version_are_passed_on() {
    let number = EventNumber { epoch: 1, seq: 9 };
    let unknown = |raw| JournalEntry::UnknownRun { number, at: 5, raw };
    assert_eq!(
        printed(&[unknown(r#"{"kind":"teleported","to":"mars"}"#), unknown(r#"{"to":"mars"}"#)]),
        "{\"v\":1,\"seq\":9,\"epoch\":1,\"at\":5,\"kind\":\"run.teleported\",\"to\":\"mars\"}\n\
         {\"v\":1,\"seq\":9,\"epoch\":1,\"at\":5,\"kind\":\"run.unknown\",\"raw\":{\"to\":\"mars\"}}\n"
    );
}

#[test]
fn headers_are_not_events() {
    let run = RunId::generate();
    let header = JournalHeader { journal: 1, run, epoch: 1, at: 0, boot: None };
    assert_eq!(printed(&[JournalEntry::Header(header)]), "");
}

#[test]
fn raw_lines_are_what_the_agent_wrote() {
    let mut out = Vec::new();
    for line in [
        AgentLine::Json(b"{\"a\" : 1}"),
        AgentLine::Text("noise"),
        AgentLine::Bytes(b"\xff\xfe"),
        AgentLine::Cut { head: b"head", length: 99, sha256: [0; 32] },
    ] {
        write_raw(&mut out, &line, LineEnding::LineFeed).unwrap();
    }
    write_raw(&mut out, &AgentLine::Text("half a li"), LineEnding::Missing).unwrap();
    assert_eq!(out, b"{\"a\" : 1}\nnoise\n\xff\xfe\nhead\nhalf a li");
}
