use pretty_assertions::assert_eq;
use store_fixtures::conversation::{rich, rich_with_everywhere};

use super::*;

fn page(conversation: &Conversation) -> String {
    let mut out = Vec::new();
    write(conversation, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The page without its text: only the elements and attributes.
fn skeleton(page: &str) -> String {
    let body = page.split_once("<body>").unwrap().1;
    let mut skeleton = String::new();
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').unwrap() + 1;
        skeleton.push_str(&rest[at..end]);
        skeleton.push('\n');
        rest = &rest[end..];
    }
    skeleton
}

#[test]
fn everything_that_is_known_is_on_the_page() {
    let page = page(&rich());
    for text in [
        "<title>Fix the parser&#39;s lifetime error</title>",
        "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11",
        "/home/ada/parser",
        "2026-07-01 09:30:00 UTC",
        "2026-07-01 09:40:00 UTC (file time)",
        "14,921 in, 806 out, 51,840 read from cache, 12 written to cache, 300 of the output tokens for reasoning, context 12,799 of 200,000",
        "parser/6f1d9c3e",
        "11111111-2222-4333-8444-555555555555 (call call_parent, type explore)",
        "3 checkpointId, 12 codeBlockDiff",
        "message 12: its blob is missing",
        "<a href=\"#m1\">The tests of `parser` fail since yesterday:</a>",
        "<strong>the line must outlive it</strong>",
        "Thinking for 4.1 s",
        "So the line must live longer.",
        "Thinking (redacted)",
        "<code>cargo test -p parser</code>",
        "failed, exit code 101, 9.2 s",
        "<div class=\"old\"><pre>",
        "the user said no",
        "fn parse(line: &amp;str)",
        "image/png, 33.7 KiB, /tmp/screenshot.png",
        "The store kept only a part.",
        "hologram",
        "18446744073709551615",
        "2.5e+300",
        "Rewrite everything",
        "finished · Composer 2 · began 2026-07-01 09:30:00 UTC · ended 2026-07-01 09:31:35 UTC · tokens 14,000 in · request req-1",
        "failed: the provider did not answer",
        "A background task ended.",
        "I am publ",
        "unnamed tool",
        "You are a coding agent.",
    ] {
        assert!(page.contains(text), "{text} is not in\n{page}");
    }
}

#[test]
fn a_page_has_no_script_no_request_and_only_its_own_style() {
    let page = page(&rich());
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = STANDARD.encode(Sha256::digest(style));
    assert!(page.contains(&format!("style-src 'sha256-{hash}'")));
    assert!(!style.contains("url(") && !style.contains("@import"));
    for banned in
        ["<script", "<link", "<iframe", "<img", "<base", " style=", " src=", "http-equiv=\"refresh"]
    {
        assert!(!page.contains(banned), "{banned}");
    }
}

/// A page with hostile text has the same elements as a page with harmless text.
#[test]
fn messages_add_no_markup() {
    let hostile =
        "\"'><script>alert(1)</script><img src=x onerror=alert(1)></pre></details>&lt;b&gt;--><!--";
    let harmless = "ooooooooooooooooooooooooooooooooooooooooooooooooooooooo";
    // Markdown turns inline markup into its own elements, so this comparison leaves out Markdown text.
    let without_texts = |text: &str| {
        let mut conversation = rich_with_everywhere(text);
        for message in &mut conversation.messages {
            message
                .parts
                .retain(|part| !matches!(part, Part::Text { .. } | Part::Reasoning { .. }));
        }
        conversation.plan = None;
        conversation
    };
    assert_eq!(skeleton(&page(&without_texts(hostile))), skeleton(&page(&without_texts(harmless))));
    let page = page(&rich_with_everywhere(hostile));
    for banned in ["<script", "<img", "alert(1)\"", "onerror=alert(1)>"] {
        assert!(!page.contains(banned), "{banned}");
    }
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn the_same_conversation_gives_the_same_page() {
    assert_eq!(page(&rich()), page(&rich()));
}
