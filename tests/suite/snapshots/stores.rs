//! Past conversations in every kind of store, with fixed ids and times.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, Outcome, Step, Todo, Turn};
use store_fixtures::ide::{self, IdeHome};
use store_fixtures::sdk::{self, Agent, Run, events};
use store_fixtures::transcript::{Block, Layout, Line, TranscriptProject, prompt, turn_succeeded};

use crate::stage::Stage;

/// Command line: two turns, with a thought, tools, a plan, todos and a changed file.
pub(super) const PARSER: &str = "5e551000-0000-4000-8000-00000000e001";
/// Command line: interrupted in the middle of a command.
pub(super) const CUT_OFF: &str = "5e552000-0000-4000-8000-00000000e002";
/// ACP.
pub(super) const ACP: &str = "5e553000-0000-4000-8000-00000000e003";
/// IDE.
pub(super) const IDE: &str = "5e554000-0000-4000-8000-00000000e004";
/// A transcript.
pub(super) const TRANSCRIPT: &str = "5e555000-0000-4000-8000-00000000e005";

/// 2020-09-13 12:26:40 UTC.
const BEGAN_MS: i64 = 1_600_000_000_000;

/// Makes a stage with all of these conversations.
pub(super) fn stage() -> Stage {
    let stage = Stage::of_fixed_width();
    write(&stage);
    stage
}

/// Like [`stage`], but the workspace is a repository with two commits, the second after the first conversation.
pub(super) fn with_commits() -> Stage {
    let stage = Stage::of_fixed_width();
    let workspace = stage.workspace();
    std::fs::create_dir_all(workspace.join("src")).unwrap();
    git(&workspace, 0, &["init", "--quiet", "--initial-branch=main"]);
    for (seconds, text, message) in [
        (-3600, "let tree = parse(&read());\n", "Add a parser"),
        (600, "let line = read();\nlet tree = parse(&line);\n", "Let the line live longer"),
    ] {
        std::fs::write(workspace.join("src/lib.rs"), text).unwrap();
        git(&workspace, seconds, &["add", "."]);
        git(&workspace, seconds, &["commit", "--quiet", "-m", message]);
    }
    write(&stage);
    stage
}

fn git(workspace: &Path, seconds: i64, args: &[&str]) {
    let date = format!("{} +0000", BEGAN_MS / 1000 + seconds);
    let done = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(args)
        .env("GIT_AUTHOR_DATE", &date)
        .env("GIT_COMMITTER_DATE", &date)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(workspace)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn write(stage: &Stage) {
    let workspace = stage.workspace().into_os_string().into_string().unwrap();
    let dot_cursor = stage.home().join(".cursor");
    parser(&workspace).write_cli(&dot_cursor.join("chats"), Closing::Clean);
    cut_off(&workspace).write_cli(&dot_cursor.join("chats"), Closing::Killed);
    acp(&workspace).write_acp(&dot_cursor.join("acp-sessions"), Closing::Clean);
    write_ide(&stage.home().join(".config/Cursor/User"));
    write_transcript(&dot_cursor.join("projects"));
    write_sdk(&dot_cursor.join("projects"));
    age(&dot_cursor);
    age(&stage.home().join(".config/Cursor"));
}

/// Sets the files' times, because a store that records no times is as old as its files.
fn age(directory: &Path) {
    let old = UNIX_EPOCH + Duration::from_millis((BEGAN_MS + 8 * 3_600_000).unsigned_abs());
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            age(&path);
        } else {
            File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
        }
    }
}

fn parser(workspace: &str) -> Chat {
    let mut chat = chat(PARSER, "Fix the parser's lifetime error", workspace, 0);
    let edit = Call {
        id: "call_2".to_owned(),
        tool: "StrReplace".to_owned(),
        args: json!({
            "path": format!("{workspace}/src/lib.rs"),
            "old_string": "let tree = parse(&read());",
            "new_string": "let line = read();\nlet tree = parse(&line);",
        }),
        result: Some(Outcome::Success("The file was changed.".into())),
    };
    let failing = Call {
        id: "call_3".to_owned(),
        tool: "Shell".to_owned(),
        args: json!({ "command": "cargo publish" }),
        result: Some(Outcome::Error("the registry did not answer".to_owned())),
    };
    chat.turns = vec![
        Turn::Agent {
            prompt: "The tests of `parser` fail:\n\n    error[E0597]: `line` does not live long enough\n\nPlease fix it.".to_owned(),
            steps: vec![
                Step::Thinking("The tree borrows from the line.".to_owned()),
                Step::Text("The tree borrows from the line, so **the line must outlive it**.".to_owned()),
                Step::Call(Call::shell("call_1", "cargo test -p parser", "running 12 tests\n")),
                Step::Call(edit),
                Step::Text("Done:\n\n1. I moved the `let`.\n2. All 12 tests pass.".to_owned()),
            ],
        },
        Turn::Agent {
            prompt: "Thanks. Now publish it.".to_owned(),
            steps: vec![
                Step::Call(failing),
                Step::Text("The registry did not answer.".to_owned()),
            ],
        },
    ];
    chat.todos = vec![
        ("Find the cause".to_owned(), Todo::Completed),
        ("Publish".to_owned(), Todo::InProgress),
        ("Ask for a review".to_owned(), Todo::Pending),
    ];
    chat.plan = Some("# Plan\n\n1. Find the cause.\n2. Fix it.".to_owned());
    chat.files = vec![(
        format!("{workspace}/src/lib.rs"),
        "let tree = parse(&read());\n".to_owned(),
        "let line = read();\nlet tree = parse(&line);\n".to_owned(),
    )];
    chat
}

fn cut_off(workspace: &str) -> Chat {
    let mut chat = chat(CUT_OFF, "Watch the build", workspace, 1);
    chat.turns = vec![Turn::plain("Watch the build.", "I watch it.")];
    chat.pending = vec![
        Step::Text("I look again.".to_owned()),
        Step::Call(Call { result: None, ..Call::shell("call_4", "sleep 600", "") }),
    ];
    chat
}

fn acp(workspace: &str) -> Chat {
    let mut chat = chat(ACP, "Count the lines", workspace, 2);
    chat.turns = vec![Turn::plain("Count the lines in src/lib.rs.", "Two lines.")];
    chat
}

fn chat(id: &str, name: &str, workspace: &str, hours: i64) -> Chat {
    let mut chat = Chat::new(Generation::Sep2026, id);
    chat.name = name.to_owned();
    chat.workspace = workspace.to_owned();
    chat.created_ms = BEGAN_MS + hours * 3_600_000;
    chat
}

fn write_ide(user_dir: &Path) {
    let home = IdeHome::new(user_dir);
    let bubbles = [
        ide::user_bubble("b1", "Where is the config read?"),
        ide::thinking_bubble("b2", "Perhaps in main.rs."),
        ide::tool_bubble(
            "b3",
            "call_5",
            "grep",
            &json!({"pattern": "config"}),
            &json!({"matches": ["src/main.rs:3: read_config()"]}),
        ),
        ide::assistant_bubble("b4", "In `src/main.rs`, line 3."),
    ];
    let headers: Vec<_> = bubbles.iter().map(ide::header).collect();
    let mut composer = ide::composer(IDE, 16, &headers);
    composer["name"] = json!("Find where the config is read");
    composer["createdAt"] = json!(BEGAN_MS + 3 * 3_600_000);
    composer["lastUpdatedAt"] = json!(BEGAN_MS + 4 * 3_600_000);
    home.put_conversation(&composer, &bubbles);
    home.close(Closing::Clean);
}

fn write_transcript(projects: &Path) {
    let project = TranscriptProject::new(projects, "srv-notes");
    project.trust("/srv/notes");
    let ls = Block::ToolUse { name: "Ls".to_owned(), input: json!({"path": "/srv/notes"}) };
    let lines = [
        prompt("Sunday, Sep 13, 2020, 5:00 PM (UTC+0)", "What is in here?"),
        Line::Assistant(vec![Block::Text("I look.".to_owned()), ls]),
        Line::Assistant(vec![Block::Text("Three notes.".to_owned())]),
        turn_succeeded(),
    ];
    project.transcript(Layout::Nested, TRANSCRIPT, &lines);
}

fn write_sdk(projects: &Path) {
    let messages = vec![
        events::user("Translate the notes."),
        events::text("I translated them."),
        events::usage(events::tokens(120, 30, 10, 0)),
    ];
    let agent =
        Agent { created_ms: BEGAN_MS + 6 * 3_600_000, ..Agent::new("translator", "/srv/notes") };
    let agent = agent.with(Run::new("run-1", messages));
    let store = sdk::state_root(projects, "/srv/notes");
    sdk::write_database(&store, sdk::Generation::September2026, &[agent], Closing::Clean);
}
