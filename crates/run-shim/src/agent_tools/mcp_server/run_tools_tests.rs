use pretty_assertions::assert_eq;
use proptest::prelude::*;
use run_protocol::ReportedStatus;
use uuid::Uuid;

use super::*;

fn tools(n_events: usize) -> (RunTools, mpsc::Receiver<RunEvent>) {
    let facts = WhoAmI {
        run: "01941f29-7c00-7000-8000-000000000001".parse().unwrap(),
        session: Uuid::nil(),
        name: None,
        workspace: "/w".to_owned(),
        model: None,
        deadline_ms: None,
        max_tool_calls: None,
        max_tokens: Some(5),
        lineage: None,
    };
    let (sender, events) = mpsc::channel(n_events);
    let nowhere = std::path::Path::new("/nonexistent");
    let desk = AgentDesk::for_test(nowhere, facts.run, facts.session, None);
    (RunTools::new(facts, sender, desk), events)
}

fn drain(events: &mut mpsc::Receiver<RunEvent>) -> Vec<RunEvent> {
    std::iter::from_fn(|| events.try_recv().ok()).collect()
}

fn is_error(result: &CallToolResult) -> bool {
    result.is_error == Some(true)
}

#[test]
fn one_progress_report_a_second_is_recorded() {
    let (tools, mut events) = tools(64);
    let start = Instant::now();
    let report = |after_ms: u64| {
        let now = start + Duration::from_millis(after_ms);
        is_error(&tools.answer("report_progress", json!({"text": after_ms.to_string()}), now))
    };
    let refused: Vec<_> =
        [0, 1, 999, 1000, 1500, 2000, 9000, 9001].into_iter().map(report).collect();
    assert_eq!(refused, [false, true, true, false, true, false, false, true]);
    let texts: Vec<_> = drain(&mut events)
        .into_iter()
        .filter_map(|event| match event {
            RunEvent::Progress { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(texts, ["0", "1000", "2000", "9000"]);
}

#[test]
fn arguments_are_checked_and_cut() {
    let (tools, mut events) = tools(1024);
    for (tool, arguments) in [
        ("report_progress", json!({})),
        ("report_progress", json!({"text": " \n"})),
        ("report_progress", json!({"text": 5})),
        ("report_progress", json!({"text": "x", "percent": 101})),
        ("report_progress", json!({"text": "x", "percent": -0.5})),
        ("report_progress", json!({"text": "x", "percent": "50"})),
        ("report_progress", json!("x")),
        ("report_result", json!({"summary": "x"})),
        ("report_result", json!({"status": "success", "summary": "x"})),
        ("report_result", json!({"status": "done"})),
        ("report_result", json!({"status": "done", "summary": "x", "artifacts": "a.md"})),
    ] {
        assert!(is_error(&tools.answer(tool, arguments.clone(), Instant::now())), "{arguments}");
        match drain(&mut events).as_slice() {
            [RunEvent::McpCall { tool: of, outcome: McpCallOutcome::Refused, why: Some(why) }] => {
                assert!(of == tool && !why.is_empty(), "{arguments}");
            }
            other => panic!("{arguments}: {other:?}"),
        }
    }
    let progress = json!({"text": format!(" a\nb\u{1b}[0m{}", "é".repeat(5000)), "more": 1});
    assert!(!is_error(&tools.answer("report_progress", progress, Instant::now())));
    match drain(&mut events).as_slice() {
        [_, RunEvent::Progress { text, percent: None }] => {
            assert!(text.starts_with("a b [0mé") && text.ends_with("é…"), "{text}");
            assert_eq!(text.chars().count(), 2000);
        }
        other => panic!("{other:?}"),
    }
    let report = json!({
        "status": "done", "summary": "x\ny".repeat(2000),
        "artifacts": vec!["z".repeat(1000); 1000],
    });
    assert!(!is_error(&tools.answer("report_result", report, Instant::now())));
    match drain(&mut events).as_slice() {
        [_, RunEvent::Reported { status: ReportedStatus::Done, summary, artifacts }] => {
            assert!(summary.starts_with("x\ny"), "{summary}");
            assert_eq!(summary.chars().count(), 2000);
            assert_eq!(artifacts.len(), 64);
            assert_eq!(artifacts[0].chars().count(), 500);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_that_reach_beyond_the_run_are_parsed_strictly() {
    let (tools, mut events) = tools(1024);
    let long = "x".repeat(8001);
    for (tool, arguments) in [
        ("ask_human", json!({"question": "  "})),
        ("ask_human", json!({"question": long})),
        ("ask_human", json!({"question": "?", "options": vec!["a"; 11]})),
        ("request_access", json!({"path": "/etc", "why": "so"})),
        ("check_inbox", json!({"session": "another"})),
        ("send_message", json!({"to": "parent", "text": long})),
        ("send_message", json!({"to": "parent", "text": "x", "from": "somebody else"})),
        ("spawn_run", json!({"prompt": "x", "workspace": "/etc"})),
        ("spawn_run", json!({"prompt": "x", "expose": ["/etc"]})),
        ("spawn_run", json!({"prompt": ""})),
        ("list_runs", json!({"all": true})),
        ("get_run", json!({})),
        ("stop_run", json!({"run": 5})),
        ("checkpoint", json!({"label": ""})),
        ("no_such_tool", json!({})),
    ] {
        assert!(is_error(&tools.answer(tool, arguments.clone(), Instant::now())), "{arguments}");
        match drain(&mut events).as_slice() {
            [RunEvent::McpCall { outcome: McpCallOutcome::Refused, why: Some(_), .. }] => {}
            other => panic!("{tool} {arguments}: {other:?}"),
        }
    }
}

#[test]
fn refusals_are_counted_and_recorded_once_a_second() {
    let (tools, mut events) = tools(64);
    let start = Instant::now();
    for after_ms in [0, 1, 2, 3, 1001] {
        let now = start + Duration::from_millis(after_ms);
        tools.note_refused(McpRefusal::Malformed, now);
    }
    let told = |count| RunEvent::McpRefused { reason: McpRefusal::Malformed, count };
    assert_eq!(drain(&mut events), [told(1), told(4)]);
}

#[test]
fn there_are_twelve_tools_with_short_names_and_each_is_known() {
    let tools = definitions::tools();
    let mut names: Vec<String> = tools.iter().map(|tool| tool.name.to_string()).collect();
    names.sort();
    let mut expected: Vec<&str> = definitions::NAMES.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(names.iter().all(|name| name.len() <= 20));
}

#[test]
fn whoami_reports_the_time_left() {
    let (tools, _events) = tools(1);
    let facts = WhoAmI { deadline_ms: Some(100_500), ..tools.shared.facts.clone() };
    assert_eq!(who_am_i(&facts, 40_000)["seconds_left"], 60);
    assert_eq!(who_am_i(&facts, 200_000)["seconds_left"], 0);
    assert_eq!(who_am_i(&tools.shared.facts, 0)["seconds_left"], Value::Null);
    assert_eq!(who_am_i(&facts, 0)["max_tool_calls"], Value::Null);
    assert_eq!(who_am_i(&facts, 0)["max_tokens"], 5);
}

proptest! {
    #[test]
    fn limits_hold_for_any_calls(
        calls in prop::collection::vec((0..4_usize, 0..400_u64), 1..300), room in 1..700_usize,
    ) {
        let (tools, mut events) = tools(room);
        let start = Instant::now();
        let mut elapsed = 0;
        for (tool, wait_ms) in calls {
            elapsed += wait_ms;
            let now = start + Duration::from_millis(elapsed);
            let (tool, arguments) = [
                ("whoami", json!({})),
                ("report_progress", json!({"text": "x"})),
                ("report_result", json!({"status": "failed", "summary": ""})),
                ("unknown", json!(null)),
            ][tool].clone();
            tools.answer(tool, arguments, now);
        }
        let events = drain(&mut events);
        let n_progress = events.iter().filter(|event| matches!(event, RunEvent::Progress { .. })).count();
        let n_results = events.iter().filter(|event| matches!(event, RunEvent::Reported { .. })).count();
        let n_calls = events.iter().filter(|event| matches!(event, RunEvent::McpCall { .. })).count();
        prop_assert!(n_progress as u64 <= 1 + elapsed / 1000);
        prop_assert!(n_results <= 1);
        prop_assert!(n_calls as u64 <= 100 + elapsed / 100 + 1 + elapsed / 1000);
        // Every event about a call's content comes with the call's own event.
        for (index, event) in events.iter().enumerate() {
            if !matches!(event, RunEvent::McpCall { .. }) {
                let before = matches!(events[index - 1], RunEvent::McpCall { outcome: McpCallOutcome::Ok, .. });
                prop_assert!(before);
            }
        }
    }
}
