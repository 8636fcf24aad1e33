use pretty_assertions::assert_eq;
use run_journal::Redaction;
use run_protocol::{
    JournalHeader, LimitKind, NetRefusal, PendingTool, RepeatedCall, ReportedStatus, Resumable,
    RunId, StopReason,
};

use super::*;

const EVIL: &str = "\u{1b}]0;title\u{7}\u{202e}\u{9b}2J\r";

fn agent(line: &[u8]) -> JournalEntry<'_> {
    let number = EventNumber { epoch: 1, seq: 1 };
    JournalEntry::Agent {
        number,
        at: 0,
        line: AgentLine::Json(line),
        ending: LineEnding::LineFeed,
        redaction: Redaction::Untouched,
    }
}

fn run(event: RunEvent) -> JournalEntry<'static> {
    JournalEntry::Run {
        number: EventNumber { epoch: 1, seq: 1 },
        at: 0,
        event,
        raw: "",
        redaction: Redaction::Untouched,
    }
}

fn written(entries: &[JournalEntry<'_>], width: Width) -> String {
    let mut view = RunView::new(width);
    let mut out = Vec::new();
    for entry in entries {
        view.show(&mut out, entry).unwrap();
    }
    view.end(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn shown(entries: &[JournalEntry<'_>]) -> String {
    anstream::adapter::strip_str(&written(entries, Width::Unlimited)).to_string()
}

fn ended(outcome: RunOutcome, why: &str, stderr_tail: &str) -> JournalEntry<'static> {
    run(RunEvent::Ended {
        outcome,
        why: why.to_owned(),
        exit_code: Some(0),
        duration_ms: 12_345,
        stderr_tail: stderr_tail.to_owned(),
    })
}

#[test]
fn a_run_reads_from_its_name_to_its_outcome() {
    let run_id: RunId = "0191d0f6-1111-7000-8000-000000000000".parse().unwrap();
    let header = JournalHeader { journal: 1, run: run_id, epoch: 1, at: 0, boot: None };
    let created = RunEvent::Created {
        session: "s".to_owned(),
        workspace: "/w".into(),
        profile: "default".to_owned(),
        agent: "/opt/cursor-agent".into(),
        agent_version: Some("2026.10.01-e373342".to_owned()),
        model: None,
        name: Some("nightly".to_owned()),
        prompt_length: 4,
        prompt_start: "test".to_owned(),
    };
    let sandbox = RunEvent::SandboxReady {
        profile: "default".to_owned(),
        sandbox_pid: 1,
        mounts: 42,
        network: Some(NetworkMode::Allowlist),
        limits: None,
        caches: Vec::new(),
        warnings: vec!["bubblewrap 0.8.0 has a known hole".to_owned()],
    };
    let checkpoint = RunEvent::Checkpoint(Checkpoint {
        session: "s".to_owned(),
        root: None,
        messages: 4,
        turns: 1,
        pending: vec![PendingTool { tool: "shell".to_owned(), subject: "sleep 600".to_owned() }],
        resumable: Resumable::Yes,
    });
    let entries = [
        JournalEntry::Header(header),
        run(created),
        run(sandbox),
        run(RunEvent::Released),
        run(RunEvent::PromptSent { length: 4 }),
        agent(br#"{"type":"system","subtype":"init","cwd":"/w","session_id":"s","model":"Auto"}"#),
        agent(br#"{"type":"assistant","message":{"content":[{"type":"text","text":"On it."}]}}"#),
        run(RunEvent::Progress { text: "half way".to_owned(), percent: Some(50.0) }),
        agent(br#"{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"webFetchToolCall":{"args":{"url":"https://x"}}},"timestamp_ms":1000}"#),
        agent(br#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"webFetchToolCall":{"result":{"rejected":{"reason":"no"}}}},"timestamp_ms":1500}"#),
        agent(br#"{"type":"result","subtype":"success","is_error":false,"result":"On it.","duration_ms":2000}"#),
        run(RunEvent::Reported {
            status: ReportedStatus::Done,
            summary: "all green".to_owned(),
            artifacts: vec!["report.md".to_owned()],
        }),
        run(checkpoint),
        ended(RunOutcome::Succeeded, "the agent gave its result", "a warning from node"),
    ];
    assert_eq!(
        shown(&entries),
        "run 0191d0f6-1111-7000-8000-000000000000\n\
         · nightly · cursor-agent · 2026.10.01-e373342 · /w\n\
         · sandbox `default` is up, 42 mounts verified, network: allowlist\n\
         ! bubblewrap 0.8.0 has a known hole\n\
         session s · Auto · /w\n\
         On it.\n\
         ◐ 50 % half way\n\
         → webFetch https://x\n\
         ⊘ webFetch https://x · rejected: no · 500 ms\n\
         ✓ done · 2.0 s\n\
         ★ the agent reports: done · all green\n  \
           report.md\n\
         · session s: 4 messages, resumable\n\
         · interrupted: shell sleep 600\n\
         ✓ succeeded after 12.3 s\n"
    );
}

#[test]
fn a_failure_shows_the_end_of_stderr_before_the_verdict() {
    let stderr = "one\ntwo\nthree\nfour\nfive\nsix\n";
    let limit = LimitKind::Tool { name: "shell".to_owned() };
    let entries = [
        run(RunEvent::LimitReached { limit: limit.clone(), after_ms: 7_200_000 }),
        run(RunEvent::StopRequested { reason: StopReason::Limit }),
        run(RunEvent::Signalled { signal: SignalName::Int, target: "the agent".to_owned() }),
        ended(RunOutcome::TimedOut { limit }, "the tool shell did not finish in time", stderr),
    ];
    assert_eq!(
        shown(&entries),
        "! the tool shell did not finish in time, after 2 h 00 min\n\
         · stopping: limit exceeded\n\
         · SIGINT to the agent\n  \
           stderr: two\n  stderr: three\n  stderr: four\n  stderr: five\n  stderr: six\n\
         ✗ timed out (tool shell) after 12.3 s: the tool shell did not finish in time\n"
    );
}

#[test]
fn our_own_lines_are_cut_on_a_terminal_except_the_last_one() {
    let why = "because ".repeat(20);
    let entries =
        [run(RunEvent::Waiting { reason: why.clone() }), ended(RunOutcome::Cancelled, &why, "")];
    let text = written(&entries, Width::Columns(30));
    let text = anstream::adapter::strip_str(&text).to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "… waiting: because because be…");
    assert!(lines[1].ends_with("because because "), "{}", lines[1]);
}

#[test]
fn a_later_epoch_damage_and_unknown_events_are_shown() {
    let run_id: RunId = "0191d0f6-1111-7000-8000-000000000000".parse().unwrap();
    let header = JournalHeader { journal: 1, run: run_id, epoch: 2, at: 0, boot: None };
    let entries = [
        JournalEntry::Header(header),
        JournalEntry::UnknownRun { number: EventNumber { epoch: 2, seq: 3 }, at: 0, raw: "{}" },
        JournalEntry::Unreadable { offset: 77, length: 3, bytes: b"abc" },
    ];
    assert_eq!(
        shown(&entries),
        "· a new supervisor continues the journal, epoch 2\n\
         · an event from a newer caretaker\n\
         · 3 bytes at byte 77 of the journal are damaged\n"
    );
}

#[test]
fn no_event_of_ours_carries_a_control_character_to_the_terminal() {
    let evil = || EVIL.to_owned();
    let entries = [
        run(RunEvent::Created {
            session: evil(),
            workspace: EVIL.into(),
            profile: evil(),
            agent: format!("/{EVIL}").into(),
            agent_version: Some(evil()),
            model: Some(evil()),
            name: Some(evil()),
            prompt_length: 0,
            prompt_start: evil(),
        }),
        run(RunEvent::Waiting { reason: evil() }),
        run(RunEvent::SandboxReady {
            profile: evil(),
            sandbox_pid: 1,
            mounts: 1,
            network: None,
            limits: None,
            caches: Vec::new(),
            warnings: vec![evil()],
        }),
        run(RunEvent::NetAllowed { host: Some(evil()), port: None, via: NetVia::Tls, count: 1 }),
        run(RunEvent::NetDenied {
            host: Some(evil()),
            port: Some(1),
            via: NetVia::Dns,
            reason: NetRefusal::BadName,
            detail: Some(evil()),
            count: 2,
        }),
        run(RunEvent::Slow { silent_ms: 1, tool: Some(evil()) }),
        run(RunEvent::Looping {
            calls: vec![RepeatedCall { tool: evil(), subject: evil() }],
            in_a_row: 12,
        }),
        run(RunEvent::ProtocolDrift { event: evil() }),
        run(RunEvent::BucketDrift { bucket: evil(), directory: evil().as_str().into() }),
        run(RunEvent::LimitReached { limit: LimitKind::Tool { name: evil() }, after_ms: 1 }),
        run(RunEvent::Signalled { signal: SignalName::Kill, target: evil() }),
        run(RunEvent::McpCall {
            tool: evil(),
            outcome: McpCallOutcome::Refused,
            why: Some(evil()),
        }),
        run(RunEvent::McpCall { tool: evil(), outcome: McpCallOutcome::RateLimited, why: None }),
        run(RunEvent::Progress { text: evil(), percent: None }),
        run(RunEvent::Reported {
            status: ReportedStatus::Failed,
            summary: evil(),
            artifacts: vec![evil()],
        }),
        run(RunEvent::Checkpoint(Checkpoint {
            session: evil(),
            root: None,
            messages: 0,
            turns: 0,
            pending: vec![PendingTool { tool: evil(), subject: evil() }],
            resumable: Resumable::No { reason: evil() },
        })),
        run(RunEvent::NeedsHuman {
            question: evil(),
            about: run_protocol::QuestionAbout::Access,
            text: evil(),
            options: vec![evil()],
            host: Some(evil()),
        }),
        run(RunEvent::MessageSent {
            to: run_protocol::RunId::generate(),
            message: evil(),
            text: evil(),
        }),
        run(RunEvent::ChildQueued { run: run_protocol::RunId::generate(), name: Some(evil()) }),
        run(RunEvent::WorkspaceMarked { label: evil(), number: 1, files: 1, ms: 1 }),
        ended(RunOutcome::TimedOut { limit: LimitKind::Tool { name: evil() } }, EVIL, EVIL),
    ];
    let text = shown(&entries);
    assert_eq!(text.matches('␛').count(), 38, "{text}");
    for character in text.chars() {
        assert!(character == '\n' || !character.is_control(), "{character:?} in {text:?}");
        assert_ne!(character, '\u{202e}');
    }
}

#[test]
fn a_refused_host_is_named_once_with_the_flag_that_would_allow_it() {
    let denied = |host: &str, reason, detail: Option<&str>, count| {
        run(RunEvent::NetDenied {
            host: Some(host.to_owned()),
            port: Some(443),
            via: NetVia::Connect,
            reason,
            detail: detail.map(ToOwned::to_owned),
            count,
        })
    };
    let allowed = |via| {
        let host = Some("api2.cursor.sh".to_owned());
        run(RunEvent::NetAllowed { host, port: Some(443), via, count: 1 })
    };
    let resolves_home = Some("it resolves to 127.0.0.1: it is this machine itself");
    let entries = [
        allowed(NetVia::Dns),
        allowed(NetVia::Tls),
        allowed(NetVia::Connect),
        denied("registry.example.org", NetRefusal::NotListed, None, 1),
        denied("registry.example.org", NetRefusal::NotListed, None, 7),
        denied("trap.example.org", NetRefusal::ForbiddenAddress, resolves_home, 1200),
    ];
    assert_eq!(
        shown(&entries),
        "· network: api2.cursor.sh\n\
         ! network: registry.example.org refused: not on the allow-list\n  \
         hint: --allow-host registry.example.org\n\
         ! network: trap.example.org ×1,200 refused: the address is private or reserved (it resolves to 127.0.0.1: it is this machine itself)\n"
    );
}
