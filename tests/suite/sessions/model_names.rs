//! Output for people has model names; output for programs has model ids.

use serde_json::{Value, json};
use store_fixtures::Closing;
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};

use crate::sessions::every_store::user_dir;
use crate::stage::{Stage, assert_exit, stderr};

const ID: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const MODEL: &str = "claude-4.5-opus-high-thinking";
const NAME: &str = "Claude Opus 4.5 (Thinking)";

fn printed(stage: &Stage, args: &[&str]) -> String {
    let output = stage.output(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_conversation_shows_the_name_of_its_model_and_its_json_has_the_id() {
    let stage = Stage::new();
    let home = IdeHome::new(&user_dir(&stage));
    let mut answer = assistant_bubble("b1", "Done.");
    answer["modelInfo"] = json!({"modelName": MODEL});
    let mut other = assistant_bubble("b2", "Done again.");
    other["modelInfo"] = json!({"modelName": "tomorrow-1-thinking"});
    let bubbles = [user_bubble("b0", "Do it."), answer, other];
    let headers: Vec<Value> = bubbles.iter().map(header).collect();
    home.put_conversation(&composer(ID, 16, &headers), &bubbles);
    home.close(Closing::Clean);

    for args in [
        &["sessions", "show", ID][..],
        &["sessions", "stats"],
        &["sessions", "export", ID, "--format", "md", "-o", "-"],
        &["sessions", "export", ID, "--format", "html", "-o", "-"],
    ] {
        // Markdown may escape its own characters with a backslash.
        let text = printed(&stage, args).replace('\\', "");
        assert!(text.contains(NAME) && !text.contains(MODEL), "{args:?}: {text}");
        assert!(text.contains("tomorrow-1-thinking"), "{args:?}: {text}");
    }
    for args in [
        &["sessions", "show", ID, "--json"][..],
        &["sessions", "stats", "--json"],
        &["sessions", "export", ID, "--format", "json", "-o", "-"],
    ] {
        let text = printed(&stage, args);
        assert!(text.contains(MODEL) && !text.contains(NAME), "{args:?}: {text}");
    }
    for wanted in ["opus 4.5", "4.5-opus"] {
        assert_eq!(printed(&stage, &["sessions", "ls", "-q", "--model", wanted]).trim(), ID);
    }
}

#[test]
fn a_run_shows_the_name_of_its_model_and_its_json_has_the_id() {
    let stage = Stage::new();
    let output = stage.play("say done", &["--model", "gpt-5.4-nano"]);
    assert_exit(&output, 0);
    let shown = printed(&stage, &["show", "-"]);
    assert!(shown.contains("GPT-5.4 Nano") && !shown.contains("gpt-5.4-nano"), "{shown}");
    let shown = printed(&stage, &["show", "-", "--json"]);
    assert!(shown.contains("\"gpt-5.4-nano\""), "{shown}");
}
