//! The text of an editor's state, which is JSON, sometimes in a string, sometimes plain text in its place.

use serde_json::Value as Json;

use super::bubble::items;

/// Returns the text, each paragraph on a line of its own.
pub(super) fn text_of_editor(state: &Json) -> String {
    match state {
        Json::String(text) => match serde_json::from_str::<Json>(text) {
            Ok(inner @ Json::Object(_)) => text_of_editor(&inner),
            _ => text.clone(),
        },
        Json::Object(_) => {
            let mut text = String::new();
            // No deeper than what the parser lets through.
            collect(state.get("root").unwrap_or(state), &mut text);
            text.truncate(text.trim_end_matches('\n').len());
            text
        }
        _ => String::new(),
    }
}

fn collect(node: &Json, text: &mut String) {
    match node["type"].as_str() {
        Some("linebreak") => text.push('\n'),
        _ => text.push_str(
            ["text", "mentionName"].iter().find_map(|name| node[name].as_str()).unwrap_or_default(),
        ),
    }
    items(&node["children"]).iter().for_each(|child| collect(child, text));
    if node["type"].as_str() == Some("paragraph") {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn paragraphs_and_breaks_become_lines() {
        let state = json!({"root": {"type": "root", "children": [
            {"type": "paragraph", "children": [
                {"type": "text", "text": "see "},
                {"type": "mention", "mentionName": "@main.rs"},
                {"type": "linebreak"},
                {"type": "text", "text": "now"},
            ]},
            {"type": "paragraph", "children": [{"type": "text", "text": "please"}]},
        ]}});
        assert_eq!(text_of_editor(&state), "see @main.rs\nnow\nplease");
        assert_eq!(text_of_editor(&json!(state.to_string())), "see @main.rs\nnow\nplease");
        assert_eq!(text_of_editor(&json!("plain {")), "plain {");
        assert_eq!(text_of_editor(&json!(["odd"])), "");
    }
}
