//! The text in the IDE's editor, `richText` or `initText`: a JSON tree, or plain text.

use serde_json::Value as Json;

use crate::json_values::items;
use crate::lenient_json;

/// Returns the text of an editor's state, with each paragraph on its own line.
pub(crate) fn text_of_editor(rich: &Json) -> String {
    match rich {
        Json::String(text) => match lenient_json::parse(text.as_bytes()) {
            Ok(state @ Json::Object(_)) => text_of_editor(&state),
            _ => text.clone(),
        },
        Json::Object(_) => {
            let mut text = String::new();
            // Safe to recurse: the JSON parser limits the depth.
            collect(rich.get("root").unwrap_or(rich), &mut text);
            text.truncate(text.trim_end().len());
            text
        }
        _ => String::new(),
    }
}

fn collect(node: &Json, text: &mut String) {
    match node["type"].as_str() {
        Some("linebreak") => text.push('\n'),
        Some("tab") => text.push('\t'),
        _ => {
            let own = ["text", "mentionName", "name"].iter().find_map(|name| node[name].as_str());
            text.push_str(own.unwrap_or_default());
        }
    }
    for child in items(&node["children"]) {
        collect(child, text);
    }
    if matches!(
        node["type"].as_str(),
        Some("paragraph" | "listitem" | "heading" | "quote" | "code")
    ) {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn paragraphs_breaks_and_mentions_become_text() {
        let state = json!({"root": {"type": "root", "children": [
            {"type": "paragraph", "children": [
                {"type": "text", "text": "look at "},
                {"type": "mention", "mentionName": "main.rs"},
                {"type": "linebreak"},
                {"type": "text", "text": "please"},
            ]},
            {"type": "paragraph", "children": [{"type": "text", "text": "now"}]},
        ]}});
        assert_eq!(text_of_editor(&state), "look at main.rs\nplease\nnow");
        assert_eq!(
            text_of_editor(&Json::String(state.to_string())),
            "look at main.rs\nplease\nnow"
        );
    }

    #[test]
    fn plain_text_instead_of_json_stays_unchanged() {
        assert_eq!(text_of_editor(&json!("just text")), "just text");
        assert_eq!(text_of_editor(&json!("{broken")), "{broken");
        assert_eq!(text_of_editor(&json!(7)), "");
    }
}
