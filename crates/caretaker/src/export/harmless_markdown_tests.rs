use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Returns the dangers that a viewer would find in a document that has the text between two of the export's headings.
fn dangers(text: &str) -> Vec<String> {
    let document = format!("# Ours\n\n{text}\n\n## Next\n");
    let mut found = Vec::new();
    let mut headings = Vec::new();
    for event in Parser::new_ext(&document, options()) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => found.push(format!("html {html}")),
            Event::Start(Tag::Image { dest_url, .. }) => found.push(format!("image {dest_url}")),
            Event::Start(Tag::Link { dest_url, link_type, .. })
                if link_type != LinkType::Email && !is_allowed_link(&dest_url) =>
            {
                found.push(format!("link {dest_url}"));
            }
            Event::Start(Tag::Heading { level, .. }) => headings.push(level as usize),
            _ => {}
        }
    }
    headings.retain(|level| *level < HIGHEST_HEADING);
    if headings != [1, 2] {
        found.push(format!("headings {headings:?}"));
    }
    found
}

#[test]
fn ordinary_markdown_stays_as_it_is() {
    for text in [
        "Two words, **bold** and `code <b>`.\n\n- one\n- two\n\n```html\n<script>\n```\n\n[a](https://example.org)",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "#### A small heading\n\n> a quote",
        "",
    ] {
        assert_eq!(harmless(text), text);
    }
}

#[test]
fn active_markup_becomes_text() {
    for (text, expected) in [
        ("a <b onclick=x>b</b>", "a &lt;b onclick=x>b&lt;/b>"),
        ("<script>\nalert(1)\n</script>", "&lt;script>\nalert(1)\n&lt;/script>"),
        ("![pixel](https://example.org/p.png)", "\\![pixel](https://example.org/p.png)"),
        ("[x](javascript:alert(1))", "\\[x](javascript:alert(1))"),
        ("<javascript:alert(1)>", "&lt;javascript:alert(1)>"),
        ("[x]: javascript:alert(1)", "\\[x]: javascript:alert(1)"),
        ("# Ours\n\n## Next", "#### Ours\n\n##### Next"),
        ("Ours\n===", "Ours\n\\==="),
        ("> Ours\n> ---", "> Ours\n> \\---"),
        ("a\u{1b}[2J\u{202e}b", "a␛[2J<U+202E>b"),
    ] {
        assert_eq!(harmless(text), expected);
        assert_eq!(dangers(expected), [] as [&str; 0], "{expected}");
    }
}

#[test]
fn code_that_was_never_closed_does_not_swallow_what_follows() {
    assert_eq!(harmless("```rust\nfn main() {}"), "```rust\nfn main() {}\n```");
    assert_eq!(harmless("~~~~\n```\n"), "~~~~\n```\n~~~~");
    assert_eq!(harmless("- a\n\n  ```\n  code"), "- a\n\n  ```\n  code");
}

/// Once `harmless` escapes the comment, the fence inside it becomes a real fence, so the script is no longer code.
#[test]
fn markup_that_an_escape_uncovers_is_escaped_too() {
    let text = "<!--\n```\n-->\n\n```\n<script>alert(1)</script>\n```\n";
    assert_eq!(dangers(&harmless(text)), [] as [&str; 0]);
}

#[test]
fn a_code_block_is_longer_than_any_fence_in_it() {
    assert_eq!(fenced("rust", "a\n"), "```rust\na\n```");
    assert_eq!(fenced("`\n<b>", "a ````` b"), "``````b\na ````` b\n``````");
    assert_eq!(code("a `b`"), "`` a `b` ``");
    assert_eq!(code("a\nb"), "`a␊b`");
}

proptest! {
    #[test]
    fn no_text_affects_the_text_around_it(text in "([<>!\\[\\]()`~#=\n *_\\-:/&\\\\|a]|<b>|\\[a\\]|: |https://|javascript:|```|<!--|-->|\n\n){0,40}") {
        prop_assert_eq!(dangers(&harmless(&text)), [] as [&str; 0]);
        prop_assert_eq!(dangers(&quoted(&harmless(&text))), [] as [&str; 0]);
        prop_assert_eq!(dangers(&fenced("rust", &text)), [] as [&str; 0]);
        prop_assert_eq!(dangers(&code(&text)), [] as [&str; 0]);
        prop_assert_eq!(dangers(&format!("x {}", plain(&text))), [] as [&str; 0]);
    }

    #[test]
    fn plain_text_in_a_line_reads_as_written(text in "[ -~]{1,40}") {
        let document = format!("x{}x", plain(&text));
        let mut read = String::new();
        for event in Parser::new_ext(&document, options()) {
            match event {
                Event::Text(text) => read.push_str(&text),
                Event::Start(Tag::Paragraph) | Event::End(_) => {}
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(read, format!("x{text}x"));
    }
}
