use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;
use run_protocol::{
    Audit, Bound, BytesPath, ChangeCounts, Checkpoint, FailureClass, Finding, FindingKind,
    LimitBackend, LimitKind, LimitsInForce, LoginDrop, McpCallOutcome, NetRefusal, NetVia,
    NetworkMode, NoResult, PendingTool, RepeatedCall, ReportedStatus, ResourceLimits, Resumable,
    RunOutcome, SignalName, Spend, StopReason, Widening,
};

use super::*;
use crate::journal::line_parsing::{Line, parse_line};
use crate::reader::hand_on_line;
use crate::test_run::{OwnedLine, Seen, ended};
use crate::{JournalEntry, LineEnding};

fn read_back(lines: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").expect("every line has its line feed");
        hand_on_line(line, 0, &mut None, &mut |entry| seen.push(entry.into()));
    }
    seen
}

/// JSON as an agent may print it: any value, with white space where JSON allows it, but no line feed.
fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just("\"\\ud83d\"".to_owned()),
        Just("{}".to_owned()),
        Just("\"},\\\"agent_text\\\":\"".to_owned()),
    ];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
            vec((any::<String>(), inner), 0..4).prop_map(|members| {
                let members: Vec<String> = members
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", serde_json::to_string(key).unwrap()))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    });
    ("[ \t\r]{0,2}", value, "[ \t\r]{0,2}")
        .prop_map(|(before, value, after)| before + &value + &after)
}

pub(crate) fn any_line() -> impl Strategy<Value = OwnedLine> {
    prop_oneof![
        4 => any_json().prop_map(OwnedLine::Json),
        1 => any::<String>().prop_map(OwnedLine::Text),
        1 => vec(any::<u8>(), 0..60).prop_map(OwnedLine::Bytes),
        1 => (vec(any::<u8>(), 0..60), any::<u64>(), any::<[u8; 32]>())
            .prop_map(|(head, length, sha256)| OwnedLine::Cut { head, length, sha256 }),
    ]
}

pub(crate) fn any_redaction() -> impl Strategy<Value = Redaction> {
    prop_oneof![Just(Redaction::Untouched), Just(Redaction::Redacted)]
}

proptest! {
    #[test]
    fn an_agent_line_is_read_back_byte_for_byte(
        line in any_line(),
        redaction in any_redaction(),
        epoch in prop_oneof![Just(1), any::<u32>()],
        seq: u64,
        at: u64,
    ) {
        let number = EventNumber { epoch, seq };
        let mut buffer = Vec::new();
        push_agent_line(&mut buffer, number, at, line.borrowed(), LineEnding::LineFeed, redaction);
        prop_assert_eq!(memchr::memchr_iter(b'\n', &buffer).count(), 1);
        prop_assert!(serde_json::from_slice::<&serde_json::value::RawValue>(&buffer).is_ok());
        prop_assert_eq!(read_back(&buffer), [Seen::Agent(number, at, line, redaction)]);
    }

    #[test]
    fn an_unterminated_line_is_read_back_as_unterminated(line in any_line(), redaction in any_redaction()) {
        let mut buffer = Vec::new();
        let number = EventNumber { epoch: 2, seq: 9 };
        push_agent_line(&mut buffer, number, 5, line.borrowed(), LineEnding::Missing, redaction);
        prop_assert_eq!(read_back(&buffer), [Seen::Agent(number, 5, line, redaction)]);
        // The order of the members does not matter.
        let in_another_order = br#"{"unterminated":true,"agent_text":"x","at":5,"seq":9}"#.to_vec();
        for text in [buffer, in_another_order] {
            let Line::Event(event) = parse_line(text.trim_ascii_end()) else { panic!("{text:?}") };
            let mut endings = Vec::new();
            event.hand_on(&mut |entry| match entry {
                JournalEntry::Agent { ending, .. } => endings.push(ending),
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(endings, [LineEnding::Missing]);
        }
    }

    #[test]
    fn any_bytes_marked_as_json_are_kept_in_one_line_and_read_back(bytes in vec(any::<u8>(), 0..60)) {
        let mut buffer = Vec::new();
        let number = EventNumber { epoch: 1, seq: 1 };
        push_agent_line(&mut buffer, number, 1, AgentLine::Json(&bytes), LineEnding::LineFeed, Redaction::Untouched);
        prop_assert_eq!(memchr::memchr_iter(b'\n', &buffer).count(), 1);
        let kept = match &read_back(&buffer)[..] {
            [Seen::Agent(_, _, OwnedLine::Json(text) | OwnedLine::Text(text), _)] => text.clone().into_bytes(),
            [Seen::Agent(_, _, OwnedLine::Bytes(bytes), _)] => bytes.clone(),
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        prop_assert_eq!(kept, bytes);
    }

    #[test]
    fn garbage_is_read_as_one_entry_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let line: Vec<u8> = bytes.into_iter().filter(|byte| *byte != b'\n').collect();
        prop_assert_eq!(read_back(&[line, b"\n".to_vec()].concat()).len(), 1);
    }

    #[test]
    fn a_damaged_line_is_read_as_one_entry_without_a_panic(line in any_line(), place: usize, byte: u8) {
        let mut buffer = Vec::new();
        let number = EventNumber { epoch: 2, seq: 9 };
        push_agent_line(&mut buffer, number, 1, line.borrowed(), LineEnding::LineFeed, Redaction::Redacted);
        let length = buffer.len() - 1;
        buffer[place % length] = if byte == b'\n' { b' ' } else { byte };
        prop_assert_eq!(read_back(&buffer).len(), 1);
    }
}

#[test]
fn every_event_that_we_write_is_read_back() {
    let outcomes = [
        RunOutcome::Succeeded,
        RunOutcome::AgentError,
        RunOutcome::Failed { class: FailureClass::RateLimited },
        RunOutcome::Unknown { why: NoResult::ExitedWithoutResult },
        RunOutcome::TimedOut { limit: LimitKind::Idle },
        RunOutcome::TimedOut { limit: LimitKind::Tool { name: "shell".to_owned() } },
        RunOutcome::QuotaExceeded { limit: LimitKind::Memory { bytes: 4 << 30 } },
        RunOutcome::QuotaExceeded { limit: LimitKind::Processes { most: 512 } },
        RunOutcome::Looping,
        RunOutcome::Cancelled,
        RunOutcome::Suspended,
        RunOutcome::Interrupted,
        RunOutcome::NotResumable,
        RunOutcome::Amnesia,
        RunOutcome::LeaseLost,
        RunOutcome::SandboxFailed,
        RunOutcome::AgentNotStarted,
        RunOutcome::SetupFailed,
        RunOutcome::SessionMismatch,
        RunOutcome::JournalFailed,
        RunOutcome::SupervisorFailed,
    ];
    let mut events: Vec<RunEvent> = outcomes
        .into_iter()
        .map(|outcome| RunEvent::Ended {
            outcome,
            why: "a sentence".to_owned(),
            exit_code: None,
            duration_ms: 5,
            stderr_tail: "line one\nline two".to_owned(),
        })
        .collect();
    events.extend([
        ended(),
        RunEvent::Waiting { reason: "the session is held".to_owned() },
        RunEvent::SandboxReady {
            profile: "default".to_owned(),
            sandbox_pid: 4,
            mounts: 31,
            network: Some(NetworkMode::None),
            caches: vec!["cargo".to_owned()],
            limits: Some(LimitsInForce {
                backend: LimitBackend::CgroupV1,
                held: ResourceLimits {
                    memory_bytes: 4 << 30,
                    processes: 512,
                    cpu_weight: 100,
                    ..ResourceLimits::default()
                },
            }),
            warnings: vec!["old bwrap".to_owned()],
        },
        RunEvent::Resuming {
            root: "5e".repeat(32),
            messages: 4,
            pending: vec![PendingTool { tool: "shell".to_owned(), subject: "ls".to_owned() }],
        },
        RunEvent::BucketDrift { bucket: "5e".repeat(32), directory: BytesPath::from("s/chats/5e") },
        RunEvent::RootPutBack { from: None, to: "5e".repeat(32) },
        RunEvent::ProtectionLost { path: BytesPath::from("w/.cursor") },
        RunEvent::ProtectionRestored { path: BytesPath::from("w/.git/config") },
        RunEvent::LoginCarriedBack { kept: "5b1c7f0e".to_owned() },
        RunEvent::LoginDropped { reason: LoginDrop::OtherAccount, count: 2 },
        RunEvent::WorkspaceSaved {
            files: 3,
            new_bytes: 20,
            ms: 4,
            left_out: vec![BytesPath::from("nested/.git")],
        },
        RunEvent::WorkspaceNotSaved { reason: "there is no git".to_owned() },
        RunEvent::Widened {
            bounds: vec![Widening {
                bound: Bound::Memory,
                from: "512.0 MiB".to_owned(),
                to: "2.0 GiB".to_owned(),
            }],
        },
        RunEvent::Spent(Spend { tool_calls: Some(7), time_ms: Some(1200), tokens: None }),
        RunEvent::Audit(Audit {
            changes: Some(ChangeCounts { added: 1, changed: 2, removed: 3 }),
            findings: vec![Finding {
                what: FindingKind::LinkOut,
                path: BytesPath::from("link"),
                target: Some(BytesPath::from("/etc")),
                was: None,
            }],
            more: 7,
            incomplete: Some("no time".to_owned()),
        }),
        RunEvent::Released,
        RunEvent::PromptSent { length: 12 },
        RunEvent::Slow { silent_ms: 60_000, tool: Some("shell".to_owned()) },
        RunEvent::Looping {
            calls: vec![RepeatedCall { tool: "shell".to_owned(), subject: "ls".to_owned() }],
            in_a_row: 24,
        },
        RunEvent::ProtocolDrift { event: "system/new".to_owned() },
        RunEvent::LimitReached { limit: LimitKind::Tool { name: "shell".to_owned() }, after_ms: 3 },
        RunEvent::LimitReached { limit: LimitKind::WallClock, after_ms: 3 },
        RunEvent::LimitReached { limit: LimitKind::Disk { bytes: 9 }, after_ms: 3 },
        RunEvent::LimitReached { limit: LimitKind::FileSize { bytes: 9 }, after_ms: 3 },
        RunEvent::SettledWithoutResult { silent_ms: 3 },
        RunEvent::StreamClosed,
        RunEvent::Lingered { ms: 5000 },
        RunEvent::StopRequested { reason: StopReason::CancelledNow },
        RunEvent::Signalled { signal: SignalName::Kill, target: "the namespace".to_owned() },
        RunEvent::McpCall {
            tool: "whoami".to_owned(),
            outcome: McpCallOutcome::RateLimited,
            why: None,
        },
        RunEvent::Progress { text: "half way".to_owned(), percent: Some(50.0) },
        RunEvent::Reported {
            status: ReportedStatus::Blocked,
            summary: "needs a key".to_owned(),
            artifacts: vec!["a.txt".to_owned()],
        },
        RunEvent::NetAllowed { host: None, port: None, via: NetVia::Dns, count: 2 },
        RunEvent::NetDenied {
            host: Some("a\0b".to_owned()),
            port: Some(443),
            via: NetVia::Tls,
            reason: NetRefusal::BadName,
            detail: Some("it has a byte that is not allowed in a name".to_owned()),
            count: 1,
        },
        RunEvent::DiskFull,
        RunEvent::Checkpoint(Checkpoint {
            session: "s".to_owned(),
            root: None,
            messages: 3,
            turns: 1,
            pending: vec![PendingTool { tool: "shell".to_owned(), subject: "ls".to_owned() }],
            resumable: Resumable::No { reason: "no root".to_owned() },
        }),
        RunEvent::Created {
            session: "s".to_owned(),
            workspace: BytesPath::from("/w"),
            profile: "default".to_owned(),
            agent: BytesPath::from("/a"),
            agent_version: None,
            model: None,
            name: None,
            prompt_length: 3,
            prompt_start: "hey".to_owned(),
        },
    ]);
    let number = EventNumber { epoch: 1, seq: 3 };
    for event in events {
        let mut buffer = Vec::new();
        push_event(&mut buffer, number, 8, &event, Redaction::Redacted);
        assert_eq!(read_back(&buffer), [Seen::Run(number, 8, event)]);
    }
}

#[test]
fn the_format_is_what_it_is() {
    let mut buffer = Vec::new();
    let first = EventNumber { epoch: 1, seq: 17 };
    let later = EventNumber { epoch: 2, seq: 18 };
    push_agent_line(
        &mut buffer,
        first,
        1_790_000_000_123,
        AgentLine::Json(b"{\"a\": 1}"),
        LineEnding::LineFeed,
        Redaction::Untouched,
    );
    push_agent_line(
        &mut buffer,
        later,
        5,
        AgentLine::Text("not \"json\""),
        LineEnding::LineFeed,
        Redaction::Redacted,
    );
    push_agent_line(
        &mut buffer,
        later,
        5,
        AgentLine::Bytes(b"\xff\x00"),
        LineEnding::LineFeed,
        Redaction::Untouched,
    );
    let cut = AgentLine::Cut { head: b"{\"a", length: 99, sha256: [0xab; 32] };
    push_agent_line(&mut buffer, later, 5, cut, LineEnding::LineFeed, Redaction::Untouched);
    let sent = RunEvent::PromptSent { length: 1 };
    push_event(&mut buffer, later, 0, &sent, Redaction::Untouched);
    let expected = [
        r#"{"seq":17,"at":1790000000123,"agent":{"a": 1}}"#,
        r#"{"seq":18,"epoch":2,"at":5,"redacted":true,"agent_text":"not \"json\""}"#,
        r#"{"seq":18,"epoch":2,"at":5,"agent_b64":"/wA="}"#,
        &format!(
            r#"{{"seq":18,"epoch":2,"at":5,"agent_cut":{{"text":"{{\"a","length":99,"sha256":"{}"}}}}"#,
            "ab".repeat(32)
        ),
        r#"{"seq":18,"epoch":2,"at":0,"run":{"kind":"prompt_sent","length":1}}"#,
    ];
    assert_eq!(String::from_utf8(buffer).unwrap().lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_line_with_its_members_in_another_order_means_the_same() {
    let number = EventNumber { epoch: 3, seq: 4 };
    for (text, seen) in [
        (
            r#"{ "agent": {"a": 1}, "at": 5, "epoch": 3, "seq": 4 }"#,
            Seen::Agent(number, 5, OwnedLine::Json(r#"{"a": 1}"#.to_owned()), Redaction::Untouched),
        ),
        (
            r#"{"at":5,"seq":4,"agent":null,"redacted":true,"epoch":3,"mended_by":"hand"}"#,
            Seen::Agent(number, 5, OwnedLine::Json("null".to_owned()), Redaction::Redacted),
        ),
        (
            r#"{"run":{"kind":"released"},"at":5,"seq":4,"epoch":3}"#,
            Seen::Run(number, 5, RunEvent::Released),
        ),
    ] {
        assert_eq!(read_back(format!("{text}\n").as_bytes()), [seen]);
    }
}

#[test]
fn an_event_of_a_newer_version_is_kept_unchanged() {
    let raw = r#"{"kind":"teleported","to":"mars"}"#;
    let line = format!("{{\"seq\":4,\"at\":5,\"run\":{raw}}}\n");
    let number = EventNumber { epoch: 1, seq: 4 };
    assert_eq!(read_back(line.as_bytes()), [Seen::UnknownRun(number, 5, raw.to_owned())]);
}
