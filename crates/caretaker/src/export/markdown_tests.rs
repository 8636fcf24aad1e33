use pretty_assertions::assert_eq;
use pulldown_cmark::{Event, Parser, Tag};
use store_fixtures::conversation::{rich, rich_with_everywhere};

use super::*;
use crate::export::harmless_markdown::options;

fn document(conversation: &Conversation) -> String {
    let mut out = Vec::new();
    write(conversation, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_conversation_reads_well() {
    assert_eq!(document(&rich()), include_str!("rich_conversation.md"));
}

#[test]
fn untrusted_text_cannot_imitate_our_headings() {
    let hostile = "\n\n# Ours\n\n<h1>Ours</h1>\n\nOurs\n===\n\n```\n\n![p](http://127.0.0.1/p.png)\n\n[x]\n\n[x]: javascript:1\n\n<!--";
    let headings = |document: &str| -> Vec<(usize, String)> {
        let mut headings: Vec<(usize, String)> = Vec::new();
        let mut is_inside = false;
        for event in Parser::new_ext(document, options()) {
            match event {
                Event::Start(Tag::Heading { level, .. }) => {
                    is_inside = true;
                    headings.push((level as usize, String::new()));
                }
                Event::End(pulldown_cmark::TagEnd::Heading(_)) => is_inside = false,
                Event::Text(text) if is_inside => headings.last_mut().unwrap().1.push_str(&text),
                Event::Html(html) | Event::InlineHtml(html) => panic!("markup: {html}"),
                Event::Start(Tag::Image { dest_url, .. }) => panic!("a picture: {dest_url}"),
                Event::Start(Tag::Link { dest_url, .. }) => {
                    assert!(dest_url.starts_with("http"), "a link: {dest_url}");
                }
                _ => {}
            }
        }
        headings.retain(|(level, _)| *level < 3);
        headings
    };
    let ours = headings(&document(&rich()));
    let theirs = headings(&document(&rich_with_everywhere(hostile)));
    assert_eq!(theirs[1..], ours[1..]);
    assert!(theirs[0].1.starts_with(&ours[0].1));
}

#[test]
fn an_empty_conversation_is_a_valid_document() {
    let mut empty = rich();
    empty.messages.clear();
    empty.head.title = None;
    assert!(document(&empty).starts_with("# Conversation 6f1d9c3e-5a52"));
}
