use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn query(text: &str) -> Option<String> {
    split_user_text(text).query.map(Cow::into_owned)
}

#[test]
fn the_query_is_the_text_inside_its_tag() {
    let text = "<timestamp>Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)</timestamp>\n\
                <open_and_recently_viewed_files>\na.rs\n</open_and_recently_viewed_files>\n\
                <user_query>\n fix it,\nplease \n</user_query>\nuntagged";
    assert_eq!(
        split_user_text(text),
        UserText {
            query: Some(" fix it,\nplease ".into()),
            context: vec![("open_and_recently_viewed_files", "\na.rs\n"), ("", "untagged")],
            timestamp: Some("Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)"),
        }
    );
}

#[test]
fn text_without_any_tag_is_the_query_unchanged() {
    for text in ["Hey there!", "", " a < b && c > d ", "<div class=\"x\">what is this</div>"] {
        assert_eq!(query(text).as_deref(), Some(text));
    }
}

#[test]
fn context_alone_is_not_a_query() {
    let text = "<user_info>\nWorkspace Path: /w\n</user_info>\n\n<rules>\n<user_rules>be kind</user_rules>\n</rules>";
    let split = split_user_text(text);
    assert_eq!(split.query, None);
    assert_eq!(
        split.context,
        [
            ("user_info", "\nWorkspace Path: /w\n"),
            ("rules", "\n<user_rules>be kind</user_rules>\n")
        ]
    );
    assert_eq!(query("<system_reminder>x</system_reminder>"), None);
    assert_eq!(query("<brand_new_files>x</brand_new_files>"), None);
}

#[test]
fn words_beside_context_are_the_query() {
    assert_eq!(
        query("<attached_files>x</attached_files>\nlook at this").as_deref(),
        Some("look at this")
    );
}

#[test]
fn a_quoted_tag_ends_no_query() {
    let text = "<user_query>\nwhat does </user_query> mean, and `<user_query>`?\n</user_query>";
    assert_eq!(query(text).as_deref(), Some("what does </user_query> mean, and `<user_query>`?"));
    // A crash cut it off.
    assert_eq!(query("<user_query>\nhalf").as_deref(), Some("half"));
}

#[test]
fn several_queries_are_one() {
    let text = "<user_query>\none\n</user_query>\n<user_query>\ntwo\n</user_query>";
    assert_eq!(query(text).as_deref(), Some("one\n\ntwo"));
}

#[test]
fn a_text_of_nothing_but_opening_tags_does_not_take_quadratic_time() {
    let text: String = (0..200_000).map(|number| format!("<a{number}_files>")).collect();
    assert_eq!(query(&text).as_deref(), Some(text.as_str()));
    let text = format!("{}<user_query>x", "<a_files>".repeat(200_000));
    assert!(split_user_text(&text).query.is_some());
}

proptest! {
    #[test]
    fn no_text_is_lost(pieces in prop::collection::vec(prop_oneof![
        Just("<user_query>".to_owned()), Just("</user_query>".to_owned()), Just("<rules>".to_owned()),
        Just("</rules>".to_owned()), Just("<timestamp>".to_owned()), Just("</timestamp>".to_owned()),
        Just("\n".to_owned()), "[a-zé< >/]{0,6}",
    ], 0..12)) {
        let text = pieces.concat();
        let split = split_user_text(&text);
        let mut shown = split.query.unwrap_or_default().into_owned();
        for (tag, body) in split.context {
            shown.push_str(tag);
            shown.push_str(body);
        }
        shown.push_str(split.timestamp.unwrap_or_default());
        for c in ['é', 'z', 'q'] {
            prop_assert!(shown.matches(c).count() >= text.replace("user_query", "").matches(c).count());
        }
    }
}
