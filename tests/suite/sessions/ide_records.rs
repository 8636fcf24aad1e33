//! `show` and `export` print everything that `search` finds in the IDE's stores besides messages.

use serde_json::{Value, json};
use store_fixtures::Closing;
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, plant, user_bubble};

use crate::sessions::every_store::user_dir;
use crate::stage::{Stage, stderr};

const ID: &str = "1d1d1d1d-0000-4000-8000-000000000001";
const FAMILIES: [&str; 3] = ["messageRequestContext", "codeBlockDiff", "checkpointId"];

fn printed(stage: &Stage, args: &[&str]) -> String {
    let output = stage.output(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns every command that prints a whole conversation.
fn tellings(id: &str) -> [Vec<&str>; 4] {
    [
        vec!["sessions", "show", id, "--full"],
        vec!["sessions", "show", id, "--json"],
        vec!["sessions", "export", id, "--format", "md"],
        vec!["sessions", "export", id, "--format", "html"],
    ]
}

#[test]
fn everything_that_search_finds_besides_the_messages_is_shown_with_the_conversation() {
    let stage = Stage::new();
    let planted = plant(&user_dir(&stage), "beside");
    let beside = planted.iter().filter(|plant| FAMILIES.contains(&plant.place.as_str()));
    let words: Vec<_> = beside.collect();
    assert_eq!(words.len(), FAMILIES.len());
    for args in tellings(&words[0].key) {
        let text = printed(&stage, &args);
        for plant in &words {
            assert!(text.contains(&plant.word), "{args:?} does not show {plant:?}: {text}");
        }
    }
}

#[test]
fn a_diff_is_shown_with_the_answer_that_made_it_and_context_with_its_prompt() {
    let stage = Stage::new();
    let home = IdeHome::new(&user_dir(&stage));
    let mut prompt = user_bubble("b0", "Use a loop.");
    prompt["checkpointId"] = json!("c1");
    let bubbles = [prompt, assistant_bubble("b1", "Done."), assistant_bubble("b2", "More.")];
    let headers: Vec<Value> = bubbles.iter().map(header).collect();
    let mut composer = composer(ID, 16, &headers);
    let uri = "file:///srv/app/src/main.rs";
    composer["codeBlockData"] = json!({uri: [{"diffId": "d1", "bubbleId": "b1", "version": 0}]});
    composer["originalFileStates"] = json!({uri: {"content": "fn main() {\n    once();\n}\n"}});
    home.put_conversation(&composer, &bubbles);
    let at = json!({"startLineNumber": 2, "endLineNumberExclusive": 3});
    let diff = json!({"originalModelDiffWrtV0": [], "newModelDiffWrtV0": [
        {"original": at, "modified": ["    loop { once(); }"]},
    ]});
    home.put(&format!("codeBlockDiff:{ID}:d1"), &diff);
    let context = json!({"gitStatusRaw": "## main", "cursorRules": [{"filename": "style.mdc"}]});
    home.put(&format!("messageRequestContext:{ID}:b0"), &context);
    let files =
        json!({"files": [{"uri": {"$mid": 1, "path": "/srv/app/src/main.rs", "scheme": "file"}}]});
    home.put(&format!("checkpointId:{ID}:c1"), &files);
    home.close(Closing::Clean);

    let told: Value =
        serde_json::from_str(&printed(&stage, &["sessions", "show", ID, "--json"])).unwrap();
    let messages = told["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{told:#}");
    let hunk = "@@ -2,1 +2,1 @@\n-    once();\n+    loop { once(); }\n";
    assert_eq!(
        messages[1]["parts"],
        json!([
            {"type": "text", "text": "Done."},
            {"type": "code", "language": "diff", "path": "/srv/app/src/main.rs", "text": hunk},
        ])
    );
    let of_prompt = messages[0]["parts"].as_array().unwrap();
    for attached in [
        json!({"type": "attachment", "kind": "rule", "name": "style.mdc"}),
        json!({"type": "attachment", "kind": "context", "name": "gitStatusRaw", "text": "## main"}),
        json!({"type": "attachment", "kind": "checkpoint", "name": "/srv/app/src/main.rs"}),
    ] {
        assert!(of_prompt.contains(&attached), "{attached} is not in {of_prompt:#?}");
    }
    // `--last` prints the records of the last messages too.
    let last = printed(&stage, &["sessions", "show", ID, "--last", "2"]);
    assert!(last.contains("    +    loop { once(); }\n"), "{last}");
    let shown = printed(&stage, &["sessions", "show", ID]);
    assert!(shown.contains("[/srv/app/src/main.rs · diff]\n    @@ -2,1 +2,1 @@\n"), "{shown}");
    assert!(!shown.contains("also kept"), "{shown}");
    let exported = printed(&stage, &["sessions", "export", ID, "--format", "md"]);
    assert!(exported.contains(&format!("```diff\n{hunk}```")), "{exported}");
}
