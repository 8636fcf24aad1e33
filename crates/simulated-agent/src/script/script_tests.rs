use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::tools::{Background, ShellRequest, TodoItem, TodoStatus, TodoUpdate};

fn orders(text: &str) -> Vec<Order> {
    Script::parse(text).unwrap().orders
}

fn one_call(text: &str) -> ToolRequest {
    match orders(text).as_slice() {
        [Order::Calls(calls)] if calls.len() == 1 => calls[0].clone(),
        other => panic!("{other:?} is not one call"),
    }
}

fn mistake(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn orders_are_read_line_by_line_and_comments_skipped() {
    let text = "# a comment\n\nthink Hm.\n  say Hello there.  \nrecall\nwait 500ms\nexit 3\n";
    assert_eq!(
        orders(text),
        [
            Order::Think("Hm.".into()),
            Order::Say("Hello there.".into()),
            Order::Recall,
            Order::Wait(Duration::from_millis(500)),
            Order::Exit(3),
        ]
    );
}

#[test]
fn a_tool_is_called_until_its_answers_contain_a_text_that_many_times() {
    let request = ToolRequest::Mcp {
        server: "caretaker".to_owned(),
        tool: "check_inbox".to_owned(),
        args: serde_json::Map::new(),
    };
    assert_eq!(
        orders("until[text=\"is done\" count=3] caretaker check_inbox"),
        [Order::Until { text: "is done".to_owned(), count: 3, request }]
    );
    for bad in [
        "until caretaker check_inbox",
        "until[text=] caretaker check_inbox",
        "until[text=x count=0] caretaker check_inbox",
        "until[text=x often] caretaker check_inbox",
        "until[text=x] caretaker",
    ] {
        assert!(Script::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_text_between_tags_may_have_several_lines_and_keeps_every_character() {
    let text = "say <<END\nfirst\n\n  # not a comment\nEND\nsay after";
    assert_eq!(
        orders(text),
        [Order::Say("first\n\n  # not a comment".into()), Order::Say("after".into())]
    );
}

#[test]
fn shell_has_options_and_a_description_of_its_own() {
    let plain = one_call("shell echo [hi] | cat");
    assert_eq!(
        plain,
        ToolRequest::Shell(ShellRequest {
            command: "echo [hi] | cat".into(),
            timeout: Duration::from_secs(30),
            background: Background::No,
            description: "Runs echo [hi] | cat".into(),
        })
    );
    let full = one_call("shell[timeout=2s background description=\"Waits, then ends\"] sleep 5");
    assert_eq!(
        full,
        ToolRequest::Shell(ShellRequest {
            command: "sleep 5".into(),
            timeout: Duration::from_secs(2),
            background: Background::Yes,
            description: "Waits, then ends".into(),
        })
    );
}

#[test]
fn a_shell_command_of_several_lines_may_have_here_documents_of_its_own() {
    let ToolRequest::Shell(request) = one_call("shell <<END\ncat <<EOF\nx\nEOF\nEND") else {
        panic!("not a shell");
    };
    assert_eq!(request.command, "cat <<EOF\nx\nEOF");
}

#[test]
fn files_are_written_and_edited_with_the_text_below() {
    assert_eq!(
        one_call("write a b.txt <<END\none\ntwo\nEND"),
        ToolRequest::Write { path: "a b.txt".into(), content: "one\ntwo\n".into() }
    );
    assert_eq!(
        one_call("write empty <<END\nEND"),
        ToolRequest::Write { path: "empty".into(), content: String::new() }
    );
    assert_eq!(
        one_call("edit a.txt <<END\nold\nlines\n===\nnew\nEND"),
        ToolRequest::Edit { path: "a.txt".into(), old: "old\nlines".into(), new: "new".into() }
    );
}

#[test]
fn every_other_tool_has_its_order() {
    let todo = |id: &str, content: &str, status| TodoItem {
        id: id.to_owned(),
        content: content.to_owned(),
        status,
    };
    let expected = [
        ("read a.txt", ToolRequest::Read { path: "a.txt".into() }),
        ("ls", ToolRequest::Ls { path: ".".into() }),
        ("ls src", ToolRequest::Ls { path: "src".into() }),
        ("delete a.txt", ToolRequest::Delete { path: "a.txt".into() }),
        ("glob **/*.rs", ToolRequest::Glob { pattern: "**/*.rs".into() }),
        (
            "grep[path=src] fn main",
            ToolRequest::Grep { pattern: "fn main".into(), path: "src".into() },
        ),
        ("fetch https://example.com", ToolRequest::WebFetch { url: "https://example.com".into() }),
        ("ask Which one?", ToolRequest::AskQuestion { question: "Which one?".into() }),
        (
            "plan <<END\n# Steps\n\n1. One.\nEND",
            ToolRequest::CreatePlan { plan: "# Steps\n\n1. One.".into() },
        ),
        ("todos", ToolRequest::ReadTodos),
        (
            "todos <<END\n[x] a\n[>] b\n[ ] c\n[-] d\nEND",
            ToolRequest::UpdateTodos {
                items: vec![
                    todo("1", "a", TodoStatus::Completed),
                    todo("2", "b", TodoStatus::InProgress),
                    todo("3", "c", TodoStatus::Pending),
                    todo("4", "d", TodoStatus::Cancelled),
                ],
                update: TodoUpdate::Replace,
            },
        ),
        (
            "task Look around: list the files",
            ToolRequest::Task {
                description: "Look around".into(),
                prompt: "list the files".into(),
            },
        ),
    ];
    for (text, request) in expected {
        assert_eq!(one_call(text), request, "{text}");
    }
    let ToolRequest::Mcp { server, tool, args } = one_call("mcp files read {\"path\": \"a b\"}")
    else {
        panic!("not an MCP call");
    };
    assert_eq!((server.as_str(), tool.as_str()), ("files", "read"));
    assert_eq!(serde_json::Value::from(args), json!({ "path": "a b" }));
}

#[test]
fn parallel_calls_are_one_step() {
    let parsed = orders("parallel\n  shell sleep 2\n  read a\nend\nshell ls");
    let sizes: Vec<usize> = parsed
        .iter()
        .map(|order| match order {
            Order::Calls(calls) => calls.len(),
            other => panic!("{other:?} is not a call"),
        })
        .collect();
    assert_eq!(sizes, [2, 1]);
}

#[test]
fn the_generation_applies_to_the_whole_script() {
    let script = Script::parse("say a\ngeneration 2026.01").unwrap();
    assert_eq!(script.generation, Some(Generation::V2026_01));
    assert_eq!(script.orders.len(), 1);
}

#[test]
fn a_mistake_names_its_line_and_its_cause() {
    let expected = [
        ("say a\n\nsya b", "line 3: unknown order `sya`; did you mean `say`?"),
        ("xyzzy", "line 1: unknown order `xyzzy`"),
        ("say", "line 1: `say` needs something to say"),
        ("wait soon", "line 1: `soon` is not a time such as `500ms`, `2s` or `1m`"),
        ("wait 5", "line 1: `5` is not a time such as `500ms`, `2s` or `1m`"),
        ("wait 11m", "line 1: `11m` is too long; the agent waits ten minutes at most"),
        ("pace 601s", "line 1: `601s` is too long; the agent waits ten minutes at most"),
        ("exit 300", "line 1: `300` is not an exit code from 0 to 255"),
        ("say <<END\nnever closed", "line 1: the line `END` that ends the text is missing"),
        (
            "shell cat <<END\nx\nEND",
            "line 1: `shell` has text on its line and more below it; put all of it below",
        ),
        (
            "edit a <<END\nno separator\nEND",
            "line 1: an edit has one line `===` between the old text and the new",
        ),
        ("write a.txt", "line 1: `write` needs a text: write PATH <<END"),
        ("parallel\nsay a\nend", "line 2: `say` is not a tool call; only calls can be parallel"),
        ("parallel\nls", "line 1: no `end` closes `parallel`"),
        ("end", "line 1: `end` without `parallel`"),
        ("shell[speed=9] ls", "line 1: `shell` takes no option `speed`"),
        ("say[loud] hello", "line 1: `say` takes no option `loud`"),
        ("shell[timeout=2s ls", "line 1: no `]` closes the options of `shell`"),
        ("mcp files", "line 1: `mcp` needs a server, a tool and optionally a JSON object"),
        (
            "todos <<END\nbuy milk\nEND",
            "line 1: `buy milk` is not a to-do such as `[ ] later`, `[>] now`, `[x] done` or `[-] dropped`",
        ),
        (
            "generation 2025",
            "line 1: unknown generation `2025`; known generations: 2026.01, 2026.09",
        ),
        (
            "misbehave lingr",
            "line 1: unknown misbehaviour `lingr`; did you mean `linger`? (see --help-scenarios)",
        ),
        ("recall everything", "line 1: `recall` takes nothing after it"),
    ];
    for (text, message) in expected {
        assert_eq!(mistake(text), message, "{text}");
    }
    assert_eq!(orders("wait 10m"), [Order::Wait(LONGEST_LIFE)]);
    assert!(
        mistake("fail badly")
            .starts_with("line 1: unknown failure `badly`; known failures: unavailable, ")
    );
    assert!(mistake("mcp a b {").starts_with("line 1: `{` is not a JSON object: "));
}

#[test]
fn the_page_about_the_language_is_true_and_names_every_order() {
    let (_, example) = LANGUAGE.split_once("```text\n").unwrap();
    let (example, _) = example.split_once("```\n").unwrap();
    assert_eq!(orders(example).len(), 6);
    for order in SIMPLE_ORDERS.into_iter().chain(call::ORDERS) {
        assert!(LANGUAGE.contains(&format!("`{order}")), "{order}");
    }
}

proptest! {
    #[test]
    fn any_script_is_read_or_refused_without_a_panic(text in "(say|shell|edit|todos|mcp|wait|parallel|end|[a-z\\[\\]=<E \"]{0,6})( [ -~]{0,20}(\n|<<END\n)){0,6}") {
        Script::parse(&text).ok();
    }

    #[test]
    fn any_text_can_be_said(text in "[^\r]{1,80}") {
        let text = text.replace("END", "end");
        let script = Script::parse(&format!("say <<END\n{text}\nEND")).unwrap();
        prop_assert_eq!(script.orders, [Order::Say(text)]);
    }
}
