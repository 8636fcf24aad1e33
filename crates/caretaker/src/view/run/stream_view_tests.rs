use agent_stream::{AgentStream, StreamSummary};
use pretty_assertions::assert_eq;

use super::*;

fn shown(stream: &str) -> String {
    shown_in(stream, Width::Unlimited)
}

fn shown_in(stream: &str, width: Width) -> String {
    let mut reader = AgentStream::default();
    let mut summary = StreamSummary::default();
    let mut view = StreamView::new(width);
    let mut out = Vec::new();
    reader.feed(stream.as_bytes(), |line| {
        let mut pieces = String::new();
        summary.observe(&line, &mut |piece| pieces.push_str(piece));
        view.show(&mut out, &line, &pieces).unwrap();
    });
    view.end(&mut out).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

#[test]
fn a_turn_reads_from_top_to_bottom() {
    let stream = concat!(
        r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"s1","model":"GPT-5 Mini"}"#,
        "\n",
        r#"{"type":"user","message":{"content":[{"type":"text","text":"do it\nnow"}]}}"#,
        "\n",
        r#"{"type":"thinking","subtype":"delta","text":"Hm,"}"#,
        "\n",
        r#"{"type":"thinking","subtype":"delta","text":" well."}"#,
        "\n",
        r#"{"type":"thinking","subtype":"completed"}"#,
        "\n",
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I'll run it."}]},"model_call_id":"m","timestamp_ms":1}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"started","call_id":"a\nb","tool_call":{"shellToolCall":{"args":{"command":"false"}}},"timestamp_ms":1000}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"completed","call_id":"a\nb","tool_call":{"shellToolCall":{"result":{"failure":{"exitCode":1}}}},"timestamp_ms":5200}"#,
        "\n",
        "(node:1) \u{1b}[31mWarning\n",
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"It failed."}]}}"#,
        "\n",
        r#"{"type":"result","subtype":"success","is_error":false,"result":"I'll run it.It failed.","duration_ms":6000,"usage":{"inputTokens":14921,"outputTokens":806}}"#,
        "\n",
    );
    assert_eq!(
        shown(stream),
        "session s1 · GPT-5 Mini · /w\n\
         > do it\n\
         > now\n\
         Hm, well.\n\
         I'll run it.\n\
         → shell false\n\
         ✗ shell false · exit 1 · 4.2 s\n\
         · (node:1) ␛[31mWarning\n\
         It failed.\n\
         ✓ done · 6.0 s · 14,921 tokens in, 806 out\n"
    );
}

#[test]
fn nothing_an_agent_says_reaches_the_terminal_as_a_control_character() {
    let evil = "\\u001b]0;title\\u0007\\u202e\\u009b2J\\r";
    let stream = format!(
        "{{\"type\":\"{evil}\",\"subtype\":\"{evil}\"}}\n\
         {{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"{evil}\",\"model\":\"{evil}\",\"cwd\":\"{evil}\"}}\n\
         {{\"type\":\"user\",\"message\":\"{evil}\"}}\n\
         {{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"{evil}\"}}\n\
         {{\"type\":\"assistant\",\"message\":\"{evil}\"}}\n\
         {{\"type\":\"tool_call\",\"subtype\":\"started\",\"call_id\":\"{evil}\",\"tool_call\":{{\"{evil}ToolCall\":{{\"args\":{{\"path\":\"{evil}\"}},\"description\":\"{evil}\"}}}}}}\n\
         {{\"type\":\"tool_call\",\"subtype\":\"completed\",\"call_id\":\"{evil}\",\"tool_call\":{{\"{evil}ToolCall\":{{\"result\":{{\"{evil}\":{{\"reason\":\"{evil}\"}}}}}}}}}}\n\
         {{\"type\":\"interaction_query\",\"subtype\":\"request\",\"query_type\":\"{evil}\"}}\n\
         {{\"type\":\"interaction_query\",\"subtype\":\"response\",\"response\":{{\"x\":{{\"rejected\":{{\"reason\":\"{evil}\"}}}}}}}}\n\
         {{\"type\":\"error\",\"message\":\"{evil}\"}}\n\
         \u{1b}]0;raw\u{7}\n"
    );
    let mut reader = AgentStream::default();
    let mut view = StreamView::new(Width::Unlimited);
    let mut out = Vec::new();
    let mut n_events = 0;
    reader.feed(stream.as_bytes(), |line| {
        n_events += 1;
        let text =
            if let EventKind::Assistant { text, .. } = &line.event.kind { &**text } else { "" };
        view.show(&mut out, &line, text).unwrap();
    });
    assert_eq!(n_events, 11);
    let text = String::from_utf8(out).unwrap();
    // Our own colours are the only remaining escape sequences: they contain only digits and end in `m`.
    let ours = |rest: &str| {
        rest.strip_prefix("\u{1b}[").is_some_and(|rest| {
            rest.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == ';')
                .starts_with('m')
        })
    };
    for (at, character) in text.char_indices() {
        let allowed = match character {
            '\n' => true,
            '\u{1b}' => ours(&text[at..]),
            '\u{202e}' => false,
            _ => !character.is_control(),
        };
        assert!(allowed, "{character:?} at {at} of {text:?}");
    }
}

#[test]
fn on_a_narrow_terminal_a_call_is_cut_but_not_its_outcome() {
    let stream = concat!(
        r#"{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"shellToolCall":{"args":{"command":"cargo test --workspace --all-targets"}}},"timestamp_ms":1000}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"shellToolCall":{"args":{"command":"cargo test --workspace --all-targets"},"result":{"failure":{"exitCode":101}}}},"timestamp_ms":5200}"#,
        "\n",
    );
    assert_eq!(
        shown_in(stream, Width::Columns(40)),
        "→ shell cargo test --workspace --all-ta…\n\
         ✗ shell cargo test -… · exit 101 · 4.2 s\n"
    );
}

#[test]
fn a_long_prompt_shows_a_screenful() {
    let prompt = "line\\n".repeat(23);
    let stream = format!("{{\"type\":\"user\",\"message\":\"{prompt}\"}}\n");
    let shown = shown(&stream);
    assert_eq!(shown.lines().count(), 21);
    assert!(shown.ends_with("> line\n> … 3 more lines\n"), "{shown}");
}

#[test]
fn a_call_without_a_subject_leaves_no_gap() {
    let stream = concat!(
        r#"{"type":"tool_call","subtype":"started","call_id":"a","tool_call":{"updateTodosToolCall":{"args":{}}},"timestamp_ms":1000}"#,
        "\n",
        r#"{"type":"tool_call","subtype":"completed","call_id":"a","tool_call":{"updateTodosToolCall":{"args":{},"result":{"success":{}}}},"timestamp_ms":1001}"#,
        "\n",
    );
    assert_eq!(shown(stream), "→ updateTodos\n✓ updateTodos · 1 ms\n");
}
