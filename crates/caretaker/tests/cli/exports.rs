//! `sessions export`, `stats`, `at` and `between`, over conversations in files.

use std::fs;
use std::path::Path;
use std::process::Command;

use cursor_stores::model::{Conversation, Moment};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::conversation::{BEGAN_MS, RICH_ID, rich, rich_with_everywhere};

use crate::scene::{Answer, Scene};

const FORMATS: [&str; 4] = ["md", "json", "jsonl", "html"];

pub(crate) fn as_json(conversation: &Conversation) -> Vec<u8> {
    let mut out = Vec::new();
    cursor_stores::write_json(conversation, &mut out).unwrap();
    out
}

/// A conversation that a list shows.
fn listed(id: &str, title: &str) -> Conversation {
    let mut conversation = rich();
    conversation.head.id = id.to_owned();
    conversation.head.title = Some(title.to_owned());
    conversation.head.parent = None;
    conversation
}

/// A host with three conversations in `kept/`.
fn scene() -> Scene {
    let scene = Scene::new();
    for (id, title) in [("aaaa-1", "First"), ("aaaa-2", "Second"), ("../escape", "Third")] {
        let name = format!("kept/{}.json", title.to_lowercase());
        scene.write(&name, as_json(&listed(id, title)));
    }
    scene
}

pub(crate) fn sessions(scene: &Scene, args: &[&str]) -> Answer {
    let kept = scene.path("kept");
    scene.caretaker([&["sessions", args[0], "--from", kept.to_str().unwrap()], &args[1..]].concat())
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[track_caller]
pub(crate) fn assert_failed(answer: &Answer, code: i32, expected: &str) {
    assert_eq!((answer.code(), answer.stdout()), (code, ""), "{}", answer.stderr());
    assert!(answer.stderr().contains(expected), "{expected} is not in {}", answer.stderr());
}

#[test]
fn one_conversation_goes_to_stdout_and_is_the_same_each_time() {
    let scene = scene();
    for format in FORMATS {
        let answer = sessions(&scene, &["export", "aaaa-1", "--format", format]);
        assert_eq!((answer.code(), answer.stderr()), (0, ""), "{format}");
        assert!(answer.stdout().contains("First"), "{format}");
        let again = scene
            .command()
            .env("TZ", "Asia/Tokyo")
            .env("NO_COLOR", "1")
            .args(["sessions", "export", "aaaa-1", "--format", format, "-o", "-", "--from"])
            .arg(scene.path("kept"))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(again.stdout).unwrap(), answer.stdout(), "{format}");
    }
    assert!(sessions(&scene, &["export", "aaaa-1"]).stdout().starts_with("# First\n"));
}

#[test]
fn an_export_is_read_back() {
    let scene = scene();
    for format in ["json", "jsonl"] {
        let file = scene.path(format!("again.{format}"));
        let file = file.to_str().unwrap();
        assert_eq!(sessions(&scene, &["export", "aaaa-2", "-o", file]).code(), 0);
        let listed = scene.caretaker(["sessions", "ls", "--from", file, "--json"]);
        let listed: Value = serde_json::from_str(listed.stdout()).unwrap();
        assert_eq!(listed["n_sessions"], 1, "{format}");
        assert_eq!(listed["sessions"][0]["title"], "Second");
        let twice = scene.caretaker(["sessions", "export", "-", "--from", file, "-f", "json"]);
        let mut twice: Conversation = serde_json::from_str(twice.stdout()).unwrap();
        // The copy also names the file that it came from.
        twice.head.origins.truncate(2);
        assert_eq!(twice, self::listed("aaaa-2", "Second"), "{format}");
    }
}

#[test]
fn the_file_extension_sets_the_format_and_a_directory_gets_a_file_named_after_the_id() {
    let scene = scene();
    let page = scene.path("page.html");
    assert_eq!(sessions(&scene, &["export", "aaaa-1", "-o", page.to_str().unwrap()]).code(), 0);
    assert!(fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
    let directory = scene.path("home");
    assert_eq!(
        sessions(&scene, &["export", "aaaa-1", "-o", directory.to_str().unwrap()]).code(),
        0
    );
    assert!(scene.path("home/aaaa-1.md").is_file());
}

#[test]
fn a_file_is_replaced_only_on_request() {
    let scene = scene();
    let file = scene.write("talk.md", "mine");
    let file = file.to_str().unwrap();
    let refused = sessions(&scene, &["export", "aaaa-1", "-o", file]);
    assert_failed(&refused, 4, "hint: replace it with `--force`");
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    assert_eq!(sessions(&scene, &["export", "aaaa-1", "-o", file, "--force"]).code(), 0);
    assert!(fs::read_to_string(file).unwrap().starts_with("# First"));
}

#[test]
fn many_conversations_become_files_named_after_their_ids_and_nothing_else_appears() {
    let scene = scene();
    let before = scene.inventory();
    let out = scene.path("out/deeper");
    let export = |flags: &[&str]| {
        let args = ["export", "--all", "-f", "html", "-o", out.to_str().unwrap()];
        sessions(&scene, &[&args, flags].concat())
    };
    let answer = export(&[]);
    assert_eq!((answer.code(), answer.stdout()), (0, ""), "{}", answer.stderr());
    assert!(answer.stderr().starts_with("3 conversations exported to "), "{}", answer.stderr());
    let written = names(&out);
    assert_eq!(written.len(), 3);
    assert_eq!(written[..2], ["aaaa-1.html", "aaaa-2.html"]);
    assert!(written[2].starts_with("session_") && written[2].ends_with(".html"), "{written:?}");
    assert_eq!(scene.inventory().len(), before.len() + 5, "two directories and three files");

    // A second export keeps the files that exist, and writes those that are missing.
    fs::write(out.join("aaaa-1.html"), "mine").unwrap();
    fs::remove_file(out.join("aaaa-2.html")).unwrap();
    let again = export(&[]);
    assert_eq!(again.code(), 1);
    assert!(again.stderr().contains("2 files already exist"), "{}", again.stderr());
    assert_eq!(fs::read_to_string(out.join("aaaa-1.html")).unwrap(), "mine");
    assert_eq!(names(&out), written);
    assert_eq!(export(&["--force"]).code(), 0);
    assert_ne!(fs::read_to_string(out.join("aaaa-1.html")).unwrap(), "mine");
}

#[test]
fn a_selection_exports_what_a_list_would_show() {
    let scene = scene();
    let mut hidden = listed("aaaa-3", "Hidden");
    hidden.head.parent = rich().head.parent;
    scene.write("kept/hidden.json", as_json(&hidden));
    let mut late = listed("aaaa-4", "Late");
    late.head.updated = Some(Moment::recorded(BEGAN_MS + 86_400_000 * 30));
    scene.write("kept/late.json", as_json(&late));
    let exported = |name: &str, flags: &[&str]| {
        let out = scene.path(name);
        let args = ["export", "-f", "json", "-o", out.to_str().unwrap()];
        let answer = sessions(&scene, &[&args, flags].concat());
        assert_eq!(answer.code(), 0, "{}", answer.stderr());
        names(&out).len()
    };
    assert_eq!(exported("since", &["--since", "2026-07-20"]), 1);
    assert_eq!(exported("model", &["--model", "composer"]), 4);
    assert_eq!(exported("all", &["--all"]), 5);
}

#[test]
fn an_unreadable_conversation_is_named_and_the_others_are_exported() {
    let scene = scene();
    let whole = as_json(&listed("bbbb", "Broken"));
    scene.write("kept/broken.json", &whole[..whole.len() / 2]);
    let out = scene.path("out");
    let answer = sessions(&scene, &["export", "--all", "-o", out.to_str().unwrap()]);
    assert_eq!(answer.code(), 1);
    assert!(
        answer.stderr().contains("note: bbbb was not exported: cannot read it"),
        "{}",
        answer.stderr()
    );
    assert!(answer.stderr().contains("3 conversations exported"), "{}", answer.stderr());
    assert_eq!(names(&out).len(), 3);
    assert_failed(&sessions(&scene, &["export", "bbbb"]), 1, "because cannot read it");

    let stats = sessions(&scene, &["stats", "--json"]);
    let report: Value = serde_json::from_str(stats.stdout()).unwrap();
    assert_eq!((&report["unread"], &report["conversations"]), (&json!(1), &json!(3)));
    assert!(
        stats.stderr().contains("bbbb cannot be read and does not count"),
        "{}",
        stats.stderr()
    );
}

#[test]
fn all_conversations_fit_into_one_stream_of_lines() {
    let scene = scene();
    let answer = sessions(&scene, &["export", "--all", "--format", "jsonl", "-o", "-"]);
    assert_eq!((answer.code(), answer.stderr()), (0, ""));
    let file = scene.write("all.jsonl", answer.stdout());
    let listed = scene.caretaker(["sessions", "ls", "-q", "--from", file.to_str().unwrap()]);
    assert_eq!(listed.stdout().lines().count(), 3);
}

#[test]
fn arguments_that_exclude_each_other_are_refused_with_a_hint() {
    let scene = scene();
    let file = scene.write("file.md", "");
    let file = file.to_str().unwrap();
    for (args, code, expected) in [
        (vec!["export"], 2, "hint: name one, or select many"),
        (vec!["export", "aaaa-1", "--since", "3d"], 2, "hint: leave one of them out"),
        (vec!["export", "--all"], 2, "hint: name a directory with `-o DIR`"),
        (
            vec!["export", "--all", "-f", "html", "-o", "-"],
            2,
            "cannot write many conversations into one document",
        ),
        (vec!["export", "--all", "-o", file], 2, "is not a directory"),
        (vec!["export", "aaaa"], 2, "2 conversations begin with `aaaa`"),
        (vec!["export", "zzzz"], 3, "no conversation `zzzz`"),
        (vec!["export", "aaaa-1", "-f", "pdf"], 2, "invalid value 'pdf'"),
        (vec!["export", "aaaa-1", "-o", "no/such/directory.md"], 1, "cannot write the file"),
        (vec!["at", "HEAD"], 2, "is not in a git repository"),
    ] {
        assert_failed(&sessions(&scene, &args), code, expected);
    }
    assert_failed(&scene.caretaker(["sessions", "ls", "--from", "nowhere"]), 3, "cannot read");
}

#[test]
fn hostile_text_is_harmless_in_every_output() {
    let scene = Scene::new();
    let hostile = "\u{1b}]0;owned\u{7}\u{202e}\u{9b}2J\r<script>";
    let mut conversation = rich_with_everywhere(hostile);
    conversation.head.parent = None;
    scene.write("kept/hostile.json", as_json(&conversation));
    for args in [
        vec!["export", "-", "-f", "md"],
        vec!["export", "-", "-f", "html"],
        vec!["ls"],
        vec!["stats"],
    ] {
        let answer = sessions(&scene, &args);
        assert_eq!(answer.code(), 0, "{}", answer.stderr());
        let bad = ['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}', '\r'];
        assert!(!answer.stdout().contains(bad) && !answer.stderr().contains(bad), "{args:?}");
    }
}

#[test]
fn counts_are_printed_for_people_and_for_programs() {
    let scene = scene();
    let report: Value =
        serde_json::from_str(sessions(&scene, &["stats", "--json"]).stdout()).unwrap();
    assert_eq!(report["v"], 1);
    assert_eq!(report["messages"], json!({"prompts": 6, "answers": 9, "others": 15}));
    assert_eq!(report["tools"]["shell"]["failed"], 3);
    assert_eq!(report["tokens"]["sum"]["input"], 3 * 14_921);
    assert_eq!(report["workspaces"]["/home/ada/parser"]["conversations"], 3);
    let text = sessions(&scene, &["stats"]);
    assert!(text.stdout().starts_with("conversations  3\n"), "{}", text.stdout());
    assert!(!text.stdout().contains('█'), "bars are for terminals");
}

pub(crate) fn git(scene: &Scene, date: &str, args: &[&str]) {
    let status = Command::new("git")
        .arg("-C")
        .arg(scene.path("home/work"))
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(args)
        .env("GIT_AUTHOR_DATE", date)
        .env("GIT_COMMITTER_DATE", date)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success());
}

/// Three commits. The fixture's conversation led to the second.
pub(crate) fn scene_with_commits() -> Scene {
    let scene = Scene::new();
    git(&scene, "2026-07-01T08:00:00Z", &["init", "--quiet", "--initial-branch=main"]);
    for (date, file) in [
        ("2026-07-01T08:00:00Z", "README.md"),
        ("2026-07-01T09:33:00Z", "src/lib.rs"),
        ("2026-07-02T12:00:00Z", "src/other.rs"),
    ] {
        scene.write(&format!("home/work/{file}"), date);
        git(&scene, date, &["add", "--all"]);
        git(&scene, date, &["commit", "--quiet", "-m", &format!("Change {file}")]);
    }
    let workspace = scene.path("home/work").to_str().unwrap().to_owned();
    let at_work = |mut conversation: Conversation| {
        let text = serde_json::to_string(&conversation).unwrap();
        let moved = text.replace("/home/ada/parser", &workspace);
        conversation = serde_json::from_str(&moved).unwrap();
        conversation
    };
    scene.write("kept/first.json", as_json(&at_work(listed(RICH_ID, "The one"))));
    let mut idle = at_work(listed("aaaa-2", "Only talked"));
    idle.messages.retain(|message| message.tool_calls().next().is_none());
    idle.files.clear();
    scene.write("kept/second.json", as_json(&idle));
    scene.write("kept/third.json", as_json(&listed("aaaa-3", "Elsewhere")));
    scene
}

#[test]
fn the_conversation_that_changed_the_files_of_a_commit_is_found_first() {
    let scene = scene_with_commits();
    let answer = sessions(&scene, &["at", "HEAD~1", "--json"]);
    assert_eq!(answer.code(), 0, "{}", answer.stderr());
    let report: Value = serde_json::from_str(answer.stdout()).unwrap();
    assert_eq!(report["commits"][0]["files"], json!(["src/lib.rs"]));
    let sessions_found: Vec<&str> = report["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["title"].as_str().unwrap())
        .collect();
    assert_eq!(sessions_found, ["The one", "Elsewhere", "Only talked"]);
    let best = &report["sessions"][0]["matches"][0];
    assert_eq!(
        best["reason"],
        "changed its only file, the last change 2 min before it, in the same workspace"
    );
    assert_eq!((&best["files"], &best["workspace"]), (&json!(["src/lib.rs"]), &json!("same")));

    let text = sessions(&scene, &["at", "HEAD~1", "-n", "1"]);
    assert!(text.stdout().contains("Change src/lib.rs"), "{}", text.stdout());
    assert!(text.stdout().contains("changed its only file"), "{}", text.stdout());
    assert!(text.stderr().contains("2 more"), "{}", text.stderr());

    // The last commit is a day later: no conversation was active then, unless the window reaches back that far.
    let later = sessions(&scene, &["at", "HEAD"]);
    assert!(later.stderr().contains("no conversations"), "{}", later.stderr());
    let wide = sessions(&scene, &["at", "HEAD", "--window", "none"]);
    assert!(wide.stdout().contains("did not change its file"), "{}", wide.stdout());
    let revision = sessions(&scene, &["at", "nowhere"]);
    assert_failed(&revision, 3, "hint: see the commits with `git log --oneline`");
    assert_failed(&sessions(&scene, &["at", "--", "--output=x"]), 3, "no commit");
}

#[test]
fn commits_between_two_are_ranked_together() {
    let scene = scene_with_commits();
    let answer = sessions(&scene, &["between", "HEAD~2", "HEAD"]);
    assert_eq!(answer.code(), 0, "{}", answer.stderr());
    assert!(answer.stdout().contains("may have led to 1 of 2 commits"), "{}", answer.stdout());
    let first = answer.stdout().lines().find(|line| line.contains(RICH_ID)).unwrap();
    assert!(first.contains("The one"), "{first}");
    let none = sessions(&scene, &["between", "HEAD", "HEAD~2"]);
    assert!(none.stderr().contains("no commits in `HEAD..HEAD~2`"), "{}", none.stderr());
}

#[test]
fn a_cancelled_export_leaves_only_complete_files() {
    let scene = Scene::new();
    let n_conversations = 2000;
    let mut lines = Vec::new();
    for number in 0..n_conversations {
        let conversation = listed(&format!("many-{number}"), "One of many");
        cursor_stores::write_jsonl(conversation, &mut lines).unwrap();
    }
    let kept = scene.write("kept/all.jsonl", lines);
    let out = scene.path("out");
    let child = scene
        .command()
        .args(["sessions", "export", "--all", "-f", "html", "-o"])
        .arg(&out)
        .arg("--from")
        .arg(kept)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let is_begun = || fs::read_dir(&out).is_ok_and(|mut entries| entries.next().is_some());
    while !is_begun() {
        std::thread::yield_now();
    }
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("note: cancelled: "), "{stderr}");
    let written = names(&out);
    assert!(written.len() < n_conversations, "the export was not cancelled in time");
    for name in written {
        assert!(name.ends_with(".html"), "{name} is left");
        assert!(
            fs::read_to_string(out.join(&name)).unwrap().ends_with("</html>\n"),
            "{name} is cut"
        );
    }
}
