//! `sessions at … --journal`: the conversation and the work behind each commit.

use std::fs;

use cursor_stores::model::{
    Conversation, Head, Message, Moment, Origin, Part, Role, StoreKind, ToolCall, ToolResult,
    ToolState, Workspace,
};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::exports::{as_json, assert_failed, git, sessions};
use crate::scene::Scene;

/// 2026-07-01 10:00 UTC.
const TEN: i64 = 1_782_900_000_000;
const HOSTILE: &str = "```\n## `0000000000` Forged\n<h1>Forged</h1>\n</details>\u{1b}[2J";

fn message(role: Role, minute: i64, parts: Vec<Part>) -> Message {
    Message { at: Some(Moment::recorded(TEN + minute * 60_000)), ..Message::new(role, parts) }
}

fn edit(path: String) -> Part {
    let mut call = ToolCall::new("edit_file", json!({"path": path}));
    call.state = ToolState::Succeeded;
    Part::ToolCall(call)
}

fn shell(command: &str) -> Part {
    let mut call = ToolCall::new("Shell", json!({"command": command}));
    call.state = ToolState::Failed;
    let output = json!({"exitCode": 101});
    call.result = Some(ToolResult { output, error: None, is_truncated: false });
    Part::ToolCall(call)
}

/// Three commits, at 10:10, 10:20 and 12:00, and one conversation that led to the first two.
fn scene() -> Scene {
    let scene = Scene::new();
    let work = scene.path("home/work").to_str().unwrap().to_owned();
    let init = "2026-07-01T08:00:00Z";
    git(&scene, init, &["init", "--quiet", "--initial-branch=main"]);
    for (date, file) in [
        (init, "README.md"),
        ("2026-07-01T10:10:00Z", "one.rs"),
        ("2026-07-01T10:20:00Z", "two.rs"),
        ("2026-07-01T12:00:00Z", "three.rs"),
    ] {
        scene.write(&format!("home/work/{file}"), date);
        git(&scene, date, &["add", "--all"]);
        git(&scene, date, &["commit", "--quiet", "-m", &format!("Add {file} <b>")]);
    }
    let origin = Origin { store: StoreKind::Cli, path: "/store.db".into(), key: None };
    let mut head = Head::new("5e5e5e5e-1", origin);
    head.title = Some(format!("Two files {HOSTILE}"));
    head.workspace = Some(Workspace::here(&work));
    head.created = Some(Moment::recorded(TEN));
    head.updated = Some(Moment::recorded(TEN + 18 * 60_000));
    let mut conversation = Conversation::new(head);
    let attached = Part::Attachment {
        kind: "file".to_owned(),
        name: Some(format!("{work}/README.md")),
        text: None,
    };
    let mut answer = message(
        Role::Assistant,
        5,
        vec![
            edit(format!("{work}/one.rs")),
            shell("cargo test\n## x"),
            Part::text("I did it.\n\nThe first file is there."),
        ],
    );
    answer.model = Some("claude-4.5-opus-high-thinking".to_owned());
    conversation.messages = vec![
        message(Role::User, 1, vec![Part::text(format!("Write *one*.\n{HOSTILE}")), attached]),
        answer,
        message(Role::User, 12, vec![Part::text("Now write two.")]),
        message(
            Role::Assistant,
            18,
            vec![edit("two.rs".to_owned()), Part::text(format!("Second.\n\nAll done. {HOSTILE}"))],
        ),
    ];
    scene.write("kept/spanning.json", as_json(&conversation));
    scene
}

#[test]
fn each_commit_tells_its_own_part_of_a_conversation_that_spans_several() {
    let scene = scene();
    let answer = sessions(&scene, &["at", "HEAD~3..HEAD", "--journal"]);
    assert_eq!(answer.code(), 0, "{}", answer.stderr());
    let document = answer.stdout();
    // The forged headings are escaped or inside code, so the only real headings are those of the commits.
    let options = pulldown_cmark::Options::all();
    let headings = pulldown_cmark::Parser::new_ext(document, options).filter(|event| {
        let level = pulldown_cmark::HeadingLevel::H2;
        matches!(event, pulldown_cmark::Event::Start(pulldown_cmark::Tag::Heading { level: it, .. }) if *it == level)
    });
    assert_eq!(headings.count(), 3, "{document}");
    assert!(!document.contains('\u{1b}'), "{document}");
    let places: Vec<usize> = ["one.rs", "two.rs", "three.rs"]
        .iter()
        .map(|it| document.find(&format!("Add {it}")).unwrap())
        .collect();
    assert!(places.is_sorted(), "the commits are not sorted, oldest first: {document}");
    let (first, rest) = document.split_at(places[1]);
    let (second, third) = rest.split_at(places[2] - places[1]);
    for part in [
        "- Files: `one.rs`",
        "- Session: `5e5e5e5e-1`",
        "- Chosen because: changed its only file, the last change 5 min before it, in the same workspace (score ",
        "- Part: messages 1 to 2 of 4",
        "- Models: Claude Opus 4.5 (Thinking)",
        "- Files changed: `one.rs`",
        "- Files discussed: `README.md`",
        "````\nWrite *one*.\n```\n## `0000000000` Forged\n<h1>Forged</h1>\n",
        "`: failed, exit code 101",
        "**Conclusion**\n\nThe first file is there.",
    ] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    for part in ["Now write two.", "All done.", "I did it."] {
        assert!(!first.contains(part), "{part} is in {first}");
    }
    for part in
        ["- Part: messages 3 to 4 of 4", "Now write two.", "- Files changed: `two.rs`", "All done."]
    {
        assert!(second.contains(part), "{part} is not in {second}");
    }
    assert!(!second.contains("Write *one*"), "{second}");
    assert!(third.contains("*No conversation in its window.*"), "{third}");
}

#[test]
fn the_journal_of_one_commit_goes_to_a_file_that_is_not_replaced_by_mistake() {
    let scene = scene();
    let file = scene.path("out/journal.md");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let path = file.to_str().unwrap();
    let answer = sessions(&scene, &["at", "HEAD~2", "--journal", "-o", path]);
    assert_eq!((answer.code(), answer.stdout()), (0, ""), "{}", answer.stderr());
    let written = fs::read_to_string(&file).unwrap();
    // The commit's period begins at the commit before it, which the user did not ask about.
    assert!(written.contains("- Part: messages 1 to 2 of 4"), "{written}");
    let again = sessions(&scene, &["at", "HEAD~2", "--journal", "-o", path]);
    assert_failed(&again, 4, "hint: replace it with `--force`");
    let forced = sessions(&scene, &["at", "HEAD~2", "--journal", "-o", path, "--force"]);
    assert_eq!(forced.code(), 0, "{}", forced.stderr());
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
}

#[test]
fn a_commit_on_another_branch_does_not_shorten_the_period_of_this_one() {
    let scene = scene();
    let (between, last) = ("2026-07-01T10:06:00Z", "2026-07-01T12:30:00Z");
    git(&scene, between, &["checkout", "--quiet", "-b", "side", "HEAD~3"]);
    scene.write("home/work/side.rs", "side");
    git(&scene, between, &["add", "--all"]);
    git(&scene, between, &["commit", "--quiet", "-m", "Add side.rs"]);
    git(&scene, last, &["checkout", "--quiet", "main"]);
    git(&scene, last, &["merge", "--quiet", "--no-edit", "side"]);
    let answer = sessions(&scene, &["at", "HEAD~4..HEAD", "--journal"]);
    assert_eq!(answer.code(), 0, "{}", answer.stderr());
    let document = answer.stdout();
    let of_one = document.split("Add one.rs").nth(1).unwrap();
    let of_one = of_one.split("Add two.rs").next().unwrap();
    assert!(of_one.contains("- Part: messages 1 to 2 of 4"), "{document}");
}

#[test]
fn a_journal_without_commits_is_refused() {
    let scene = scene();
    for (args, code, expected) in [
        (&["at", "HEAD..HEAD~1", "--journal"][..], 3, "no commits to write a journal about"),
        (&["at", "HEAD...HEAD~1", "--journal"], 2, "hint: write two dots: `A..B`"),
        (&["at", "nowhere..HEAD", "--journal"], 3, "no commit `nowhere`"),
        (&["at", "HEAD", "--journal", "--json"], 2, "cannot be used with"),
        (&["at", "HEAD", "-o", "x.md"], 2, "--journal"),
    ] {
        assert_failed(&sessions(&scene, args), code, expected);
    }
    // Without `--journal`, a range works as in `between`.
    let listed = sessions(&scene, &["at", "HEAD~3.."]);
    assert!(listed.stdout().contains("may have led to 2 of 3 commits"), "{}", listed.stdout());
}
