//! What a user typed, told apart from what Cursor wrapped around it.

use std::borrow::Cow;

/// The pieces of a prompt as the model saw it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UserText<'a> {
    /// What the user typed. `None`: there is nothing but context.
    pub query: Option<Cow<'a, str>>,
    /// What Cursor added, by tag, in order.
    pub context: Vec<(&'a str, &'a str)>,
    /// As Cursor wrote it, for humans.
    pub timestamp: Option<&'a str>,
}

const QUERY: &str = "user_query";
const TIMESTAMP: &str = "timestamp";
/// Tags that hold nothing of what a user typed.
const CONTEXT_TAGS: &[&str] = &[
    "additional_data",
    "agent_skills",
    "agent_transcripts",
    "always_applied_workspace_rules",
    "attached_files",
    "available_skills",
    "cursor_commands",
    "git_status",
    "image_files",
    "manually_attached_skills",
    "mcp_instructions",
    "open_and_recently_viewed_files",
    "project_layout",
    "rules",
    "system_reminder",
    "terminal_files_information",
    "user_info",
    "user_rules",
];

/// Splits a prompt. Cursor escapes nothing inside its tags, so a query ends at the last closing tag.
pub(crate) fn split_user_text(text: &str) -> UserText<'_> {
    let mut split = UserText::default();
    let opening = text.find("<user_query>");
    let closing = text.rfind("</user_query>");
    if let (Some(opening), Some(closing)) = (opening, closing)
        && let Some(query) = text.get(opening + "<user_query>".len()..closing)
    {
        split.query = Some(Cow::Borrowed(query.trim_matches(['\n', '\r'])));
        let rest = split.take_context(&text[..opening]);
        split.keep_rest(rest);
        let rest = split.take_context(&text[closing + "</user_query>".len()..]);
        split.keep_rest(rest);
        return split;
    }
    let rest = split.take_context(text);
    if !rest.is_empty() {
        split.query = Some(Cow::Borrowed(rest));
    } else if split.context.is_empty() && split.timestamp.is_none() {
        split.query = Some(Cow::Borrowed(text));
    }
    split
}

impl<'a> UserText<'a> {
    /// Takes known tags from the front, and returns what is left.
    fn take_context(&mut self, text: &'a str) -> &'a str {
        let mut rest = text.trim();
        while let Some((tag, body, after)) = leading_tag(rest) {
            if tag == TIMESTAMP && self.timestamp.is_none() {
                self.timestamp = Some(body.trim());
            } else if CONTEXT_TAGS.contains(&tag) {
                self.context.push((tag, body.trim_matches(['\n', '\r'])));
            } else {
                break;
            }
            rest = after.trim();
        }
        rest
    }

    fn keep_rest(&mut self, rest: &'a str) {
        if !rest.is_empty() {
            self.context.push(("", rest));
        }
    }
}

/// `<tag …>body</tag>after`.
fn leading_tag(text: &str) -> Option<(&str, &str, &str)> {
    let inside = text.strip_prefix('<')?;
    let (opening, rest) = inside.split_once('>')?;
    let tag = opening.split_whitespace().next()?;
    let is_name =
        tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if !is_name || tag == QUERY {
        return None;
    }
    let closing = format!("</{tag}>");
    let end = rest.find(&closing)?;
    Some((tag, rest.get(..end)?, rest.get(end + closing.len()..)?))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_is_told_from_what_is_around_it() {
        let text =
            "<timestamp>Tuesday</timestamp>\n<user_query>\nfix </user_query> it\n</user_query>";
        assert_eq!(
            split_user_text(text),
            UserText {
                query: Some("fix </user_query> it".into()),
                context: Vec::new(),
                timestamp: Some("Tuesday"),
            }
        );
    }

    #[test]
    fn text_without_a_tag_is_what_the_user_typed() {
        assert_eq!(
            split_user_text("plain <b>text</b>").query.as_deref(),
            Some("plain <b>text</b>")
        );
        assert_eq!(split_user_text("").query.as_deref(), Some(""));
    }

    #[test]
    fn context_alone_is_no_query() {
        let split = split_user_text("<user_info>\nOS: linux\n</user_info>\n<rules>be kind</rules>");
        assert_eq!(split.query, None);
        assert_eq!(split.context, [("user_info", "OS: linux"), ("rules", "be kind")]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail(text in "\\PC{0,60}(<user_query>|</user_query>|<rules>|</rules>|<timestamp>){0,4}\\PC{0,60}") {
            let _split = split_user_text(&text);
        }
    }
}
