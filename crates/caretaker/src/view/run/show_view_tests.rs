use std::collections::BTreeMap;

use agent_stream::Usage;
use pretty_assertions::assert_eq;
use run_journal::{Reported, RunOverview};
use run_protocol::{
    Audit, ChangeCounts, Finding, FindingKind, LimitBackend, LimitKind, LimitsInForce, LoginDrop,
    NetRefusal, NetVia, NetworkMode, PendingTool, RepeatedCall, ReportedStatus, ResourceLimits,
    Resumable, RunEvent, RunOutcome,
};

use super::*;
use crate::commands::show::RunFiles;
use crate::view::run::network_sum::{Reached, Refused};

fn shown() -> ShownRun {
    let overview = RunOverview {
        run: "0191d0f6-1111-7000-8000-0123456789ab".parse().unwrap(),
        created_ms: 1_790_000_000_000,
        name: Some("nightly".to_owned()),
        labels: BTreeMap::from([("team".to_owned(), "core".to_owned())]),
        session: "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11".to_owned(),
        workspace: "/home/ada/project".into(),
        worktree: None,
        profile: "default".to_owned(),
        agent: "/opt/cursor-agent".into(),
        agent_version: Some("2026.10.01-e373342".to_owned()),
        model: None,
        prompt_start: "fix the \u{1b}[2Jtests".to_owned(),
        prompt_length: 13,
        retry_of: None,
        group: None,
        lineage: None,
        needs_human: None,
        state: RunState::Ended {
            outcome: RunOutcome::TimedOut { limit: LimitKind::Idle },
            why: "the agent was silent for 1200 s".to_owned(),
            exit_code: Some(130),
            duration_ms: 1_260_000,
        },
        last_event: None,
        last_event_ms: 1_790_001_260_000,
        checkpoint: Some(Checkpoint {
            session: "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11".to_owned(),
            root: None,
            messages: 4,
            turns: 1,
            pending: vec![PendingTool {
                tool: "shell".to_owned(),
                subject: "sleep 600".to_owned(),
            }],
            resumable: Resumable::Yes,
        }),
        reported: Some(Reported { status: ReportedStatus::Blocked, summary: "no key".to_owned() }),
        spent: None,
        journal_bytes: 2048,
    };
    let file = |name: &str| format!("/state/runs/r/{name}").into();
    ShownRun {
        v: 1,
        policy: Some(ShownPolicy {
            deny: vec!["Shell(git push)".to_owned(), "Read(\u{1b}[2J)".to_owned()],
            allow: vec!["Shell(ls)".to_owned()],
            model: Some("Claude 4.6 Opus".to_owned()),
            http1: true,
            team: Some(42.into()),
            hook_programs: vec!["/opt/guard/check".into()],
            not_applied: vec!["~/.cursor/hooks.json".to_owned()],
        }),
        why: words::why(&overview.state).map(ToOwned::to_owned),
        exit_code: Some(124),
        answer: None,
        limits: Some(LimitsInForce {
            backend: LimitBackend::CgroupV1,
            held: ResourceLimits {
                memory_bytes: 4 << 30,
                processes: 512,
                cpu_weight: 100,
                cpu_milli: 1500,
                ..ResourceLimits::default()
            },
        }),
        caches: vec!["cargo".to_owned(), "npm".to_owned()],
        tools: BTreeMap::from([(
            "shell".to_owned(),
            BTreeMap::from([("failure".to_owned(), 1), ("success".to_owned(), 3)]),
        )]),
        open_tools: vec![],
        looping: Some(RunEvent::Looping {
            calls: ["a.rs", "b.rs"]
                .map(|path| RepeatedCall { tool: "read".to_owned(), subject: path.to_owned() })
                .to_vec(),
            in_a_row: 12,
        }),
        usage: Some(Usage {
            input_tokens: Some(14_921),
            output_tokens: Some(806),
            ..Usage::default()
        }),
        unknown_kinds: BTreeMap::new(),
        network: NetworkSum {
            mode: Some(NetworkMode::Allowlist),
            allowed: vec![Reached {
                host: Some("api2.cursor.sh".to_owned()),
                port: Some(443),
                count: 12,
            }],
            // DNS and the proxy both refused the same host.
            denied: [(None, NetVia::Dns, 2), (Some(443), NetVia::Connect, 1)]
                .into_iter()
                .map(|(port, via, count)| Refused {
                    host: Some("registry.example.org".to_owned()),
                    port,
                    via,
                    reason: NetRefusal::NotListed,
                    detail: None,
                    count,
                    allow_with: Some("--allow-host registry.example.org".to_owned()),
                })
                .collect(),
        },
        saved: Some(WorkspaceSaved::Yes { files: 12, left_out: vec!["lib/.git".into()] }),
        audit: Some(Audit {
            changes: Some(ChangeCounts { added: 1, changed: 2, removed: 0 }),
            findings: vec![Finding {
                what: FindingKind::Executable,
                path: "run.sh".into(),
                target: None,
                was: None,
            }],
            more: 0,
            incomplete: None,
        }),
        login: vec![RunEvent::LoginDropped { reason: LoginDrop::OtherAccount, count: 1 }],
        hooks: Vec::new(),
        stderr_tail: "one\ntwo\n".to_owned(),
        files: RunFiles {
            directory: "/state/runs/r".into(),
            journal: file("events.jsonl"),
            prompt: file("prompt"),
            stderr: file("stderr.log"),
            supervisor_log: file("shim.log"),
        },
        overview,
    }
}

#[test]
fn a_run_is_shown_with_its_outcome_and_why_in_one_sentence() {
    let mut out = Vec::new();
    print(&mut out, &shown()).unwrap();
    let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
    let (created, ended) = (moment(1_790_000_000_000_i64), moment(1_790_001_260_000_i64));
    assert_eq!(
        text,
        format!(
            "run        0191d0f6-1111-7000-8000-0123456789ab\n\
             name       nightly\n\
             labels     team=core\n\
             state      ✗ timed out (idle): the agent was silent for 1200 s\n\
             reported   blocked: no key\n\
             prompt     fix the ␛[2Jtests\n\
             session    6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11\n\
             workspace  /home/ada/project\n\
             agent      /opt/cursor-agent 2026.10.01-e373342\n\
             profile    default\n\
             rules      deny Shell(git push), Read(␛[2J)\n           allow Shell(ls)\n           \
             model Claude 4.6 Opus (your default)\n           HTTP/1.1\n           team 42\n           \
             hooks in /etc/cursor start /opt/guard/check\n           not applied: ~/.cursor/hooks.json\n\
             limits     memory 4.0 GiB, 512 processes, 1.5 processors, by cgroup v1\n\
             caches     cargo npm\n\
             created    {created}\n\
             ended      {ended}, after 21 min 00 s\n\
             exit code  130 (the agent's own)\n\
             tools      shell: 1 failure, 3 success\n\
             repeats    read a.rs, then read b.rs (12 calls in a row, same results)\n\
             usage      14,921 tokens in, 806 out\n\
             network    allowlist\n           reached api2.cursor.sh ×12\n           \
             refused registry.example.org ×3: not on the allow-list; --allow-host registry.example.org\n\
             saved      12 files; not covered: lib/.git\n\
             changed    3 files: 1 added, 2 changed\n\
             look at    new executable: run.sh\n\
             login      the agent changed its login; your login is unchanged: \
             the agent's tokens belong to another account\n\
             checkpoint 4 messages, 1 turn, resumable\n\
             pending    shell sleep 600\n\
             stderr     one\n           two\n\
             files      /state/runs/r (journal: 2.0 KiB)\n"
        )
    );
}

#[test]
fn the_json_form_is_one_flat_object() {
    let json = serde_json::to_value(shown()).unwrap();
    assert_eq!(
        (&json["v"], &json["name"], &json["state"]["outcome"], &json["exit_code"]),
        (&1.into(), &"nightly".into(), &"timed_out".into(), &124.into())
    );
    assert_eq!(json["tools"]["shell"]["success"], 3);
}

#[test]
fn a_moment_is_readable_and_nonsense_does_not_panic() {
    assert_eq!(moment(1_790_000_000_000_i64).len(), "2026-09-21 16:13:20".len());
    assert_eq!(moment(u64::MAX), "unknown time");
}

fn printed(shown: &ShownRun) -> String {
    let mut out = Vec::new();
    print(&mut out, shown).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

#[test]
fn a_short_answer_is_shown_whole_and_harmless() {
    let answer = Some("\u{1b}]0;title\u{7}Done:\n\n\tcargo test\r\n".to_owned());
    let text = printed(&ShownRun { answer, ..shown() });
    let expected = "answer     ␛]0;title␇Done:\n           \n           \tcargo test\nsession";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("in all"), "{text}");
}

#[test]
fn a_long_answer_shows_its_beginning_and_where_the_rest_is() {
    let lines: String = (1..=30).map(|number| format!("line {number}.\n")).collect();
    for answer in [lines, "line 20. ".repeat(2000)] {
        let text = printed(&ShownRun { answer: Some(answer), ..shown() });
        assert!(text.contains("line 20.") && !text.contains("line 21."), "{text}");
        assert!(text.contains("in all, see `answer` in `caretaker show 0191d0f6"), "{text}");
        assert!(text.len() < 8000, "{text}");
    }
}
