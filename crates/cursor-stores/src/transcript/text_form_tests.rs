use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn assistant(text: &str) -> Vec<Part> {
    decode_speech(Speaker::Assistant, text).unwrap().parts
}

fn call(name: &str, input: Json) -> Part {
    Part::ToolCall(ToolCall::new(name, input))
}

#[test]
fn marks_tell_thoughts_calls_results_and_text_apart() {
    let text = "\
[Thinking] first
second

I look.
[Tool call] Read
  path: /a b.rs
  offset: 12
[Tool call] Shell
  command=ls -l
[Tool call] TodoWrite
  todos: [{\"id\":\"1\"}]

[Tool result] Read
line 1

line 2
[Thinking] more
[Tool call] Grep
{
  \"pattern\": \"x\"
}
Done.
";
    let result = |name: &str, output: Json| Part::ToolResult {
        call_id: None,
        tool_name: Some(name.to_owned()),
        result: ToolResult { output, error: None, is_truncated: false },
    };
    assert_eq!(
        assistant(text),
        vec![
            Part::reasoning("first\nsecond"),
            Part::text("I look."),
            call("Read", json!({"path": "/a b.rs", "offset": "12"})),
            call("Shell", json!({"command": "ls -l"})),
            call("TodoWrite", json!({"todos": [{"id": "1"}]})),
            result("Read", json!("line 1\n\nline 2")),
            Part::reasoning("more"),
            call("Grep", json!({"pattern": "x"})),
            Part::text("Done."),
        ]
    );
}

#[test]
fn a_long_value_of_a_call_stays_one_value() {
    let text = "[Tool call] Write\n  path: a.py\n  contents: def f():\n      return 1\n\n  path: of a comment\n";
    let expected =
        json!({"path": "a.py", "contents": "def f():\n    return 1\n\npath: of a comment"});
    assert_eq!(assistant(text), [call("Write", expected)]);
    assert_eq!(assistant("[Tool call] X\n  = 1\n"), [call("X", json!("  = 1"))]);
    assert_eq!(assistant("[Tool call] X\n"), [call("X", Json::Null)]);
}

#[test]
fn users_write_marks_without_meaning_them() {
    let message = decode_speech(Speaker::User, "what is\n[Tool call] x\n").unwrap();
    assert_eq!(message, Message::new(Role::User, vec![Part::text("what is\n[Tool call] x")]));
}

#[test]
fn text_before_the_first_speaker_is_kept() {
    assert_eq!(decode_speech(Speaker::Unnamed, " \n"), None);
    let message = decode_speech(Speaker::Unnamed, "title\n").unwrap();
    assert_eq!(message, Message::new(Role::Unknown, vec![Part::text("title")]));
}

proptest! {
    #[test]
    fn no_text_makes_it_fail(text in "(\\[Thinking\\]|\\[Tool call\\]|\\[Tool result\\]|[ a:={}\n\té]|\\PC){0,80}") {
        for speaker in [Speaker::User, Speaker::Assistant, Speaker::Unnamed] {
            let _message = decode_speech(speaker, &text);
        }
    }

    #[test]
    fn no_word_is_lost(words in proptest::collection::vec("[a-z]{3,8}", 1..20), marks in proptest::collection::vec(0..5, 20)) {
        let text: String = words.iter().zip(&marks).map(|(word, mark)| match mark {
            0 => format!("[Thinking] {word}\n"),
            1 => format!("[Tool call] T\n  k: {word}\n"),
            2 => format!("[Tool result] T\n{word}\n"),
            3 => format!("\n{word}\n"),
            _ => format!("  {word}\n"),
        }).collect();
        let parts = serde_json::to_string(&assistant(&text)).unwrap();
        for word in words {
            prop_assert!(parts.contains(&word), "{word} of {text:?} is not in {parts}");
        }
    }
}
