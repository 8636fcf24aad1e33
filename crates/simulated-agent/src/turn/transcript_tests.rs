use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

struct Desk {
    _home: TempDir,
    roots: CursorRoots,
    workspace: WorkspacePath,
}

fn desk() -> Desk {
    let home = tempfile::tempdir().unwrap();
    let roots = CursorRoots::in_sandbox(home.path());
    Desk { _home: home, roots, workspace: WorkspacePath::new(Path::new("/srv/my app")).unwrap() }
}

impl Desk {
    fn path(&self, id: Uuid) -> PathBuf {
        self.roots.projects().join(format!("srv-my-app/agent-transcripts/{id}/{id}.jsonl"))
    }

    fn rewrite(&self, id: Uuid, messages: &[Value]) -> Transcript {
        Transcript::rewrite(&self.roots, &self.workspace, id, messages).unwrap()
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn messages() -> Vec<Value> {
    vec![
        json!({ "role": "user", "content": [{ "type": "text", "text": "<user_query>\nhi\n</user_query>" }] }),
        json!({ "role": "assistant", "content": [
            { "type": "reasoning", "text": "secret" }, { "type": "text", "text": "looking" },
            { "type": "tool-call", "toolCallId": "c", "toolName": "Shell", "args": { "command": "ls" } },
        ] }),
        json!({ "role": "tool", "content": [{ "type": "tool-result", "result": "files" }] }),
        json!({ "role": "assistant", "content": "plain" }),
        json!({ "role": "assistant", "content": [{ "type": "reasoning", "text": "only thoughts" }] }),
    ]
}

#[test]
fn a_transcript_shows_texts_and_calls_and_nothing_else() {
    let desk = desk();
    let id = Uuid::new_v4();
    desk.rewrite(id, &messages());
    assert_eq!(
        lines(&desk.path(id)),
        [
            json!({ "role": "user", "message": { "content": [
            { "type": "text", "text": "<user_query>\nhi\n</user_query>" },
        ] } }),
            json!({ "role": "assistant", "message": { "content": [
            { "type": "text", "text": "looking" },
            { "type": "tool_use", "name": "Shell", "input": { "command": "ls" } },
        ] } }),
            json!({ "role": "assistant", "message": { "content": [{ "type": "text", "text": "plain" }] } }),
        ]
    );
}

#[test]
fn a_turn_appends_its_lines_and_says_how_it_ended() {
    let desk = desk();
    let id = Uuid::new_v4();
    let mut transcript = desk.rewrite(id, &messages()[..1]);
    let path = desk.path(id);
    let call = ToolCallRecord {
        call_id: "c".to_owned(),
        key: "shellToolCall".to_owned(),
        tool_name: "Shell".to_owned(),
        args: json!({}),
        model_args: json!({ "command": "ls" }),
    };
    transcript.assistant(Some("looking"), &[call]).unwrap();
    transcript.assistant(None, &[]).unwrap();
    assert_eq!(lines(&path).len(), 2);
    // The live line equals the line rewritten from the store.
    let live = lines(&path)[1].clone();
    assert_eq!(Some(live), line_of(&messages()[1]));
    transcript.end(&TurnEnding::Aborted { error: "stopped".to_owned() }).unwrap();
    let last = lines(&path).pop().unwrap();
    assert_eq!(last, json!({ "type": "turn_ended", "status": "aborted", "error": "stopped" }));
}

#[test]
fn a_resume_rewrites_the_whole_file_with_one_ending() {
    let desk = desk();
    let id = Uuid::new_v4();
    let play = |messages: &[Value]| {
        desk.rewrite(id, messages).end(&TurnEnding::Success).unwrap();
        lines(&desk.path(id))
    };
    play(&messages());
    let resumed = play(&messages()[..1]);
    assert_eq!(resumed.len(), 2);
    assert_eq!(resumed[1], json!({ "type": "turn_ended", "status": "success" }));
}
