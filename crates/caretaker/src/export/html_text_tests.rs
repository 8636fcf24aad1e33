use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn flow(text: &str) -> String {
    rendered(text, LineEnds::Flow)
}

#[test]
fn markdown_is_rendered() {
    for (text, expected) in [
        (
            "# One\n\ntwo *three* **four** ~~five~~ `six`",
            "<h3>One</h3>\n<p>two <em>three</em> <strong>four</strong> <del>five</del> <code>six</code></p>\n",
        ),
        ("- a\n- [x] b", "<ul>\n<li>a</li>\n<li>☑ b</li>\n</ul>\n"),
        ("3. a", "<ol start=\"3\">\n<li>a</li>\n</ol>\n"),
        (
            "```rust ignore\nlet a = 1 < 2;\n```",
            "<pre><span class=\"label\">rust</span><code>let a = 1 &lt; 2;\n</code></pre>\n",
        ),
        ("> a\n\n---", "<blockquote>\n<p>a</p>\n</blockquote>\n<hr>\n"),
        (
            "|a|b|\n|-|-:|\n|1|2|",
            "<div class=\"table\"><table>\n<thead><tr><th>a</th><th class=\"right\">b</th></tr></thead>\n<tbody>\n<tr><td>1</td><td class=\"right\">2</td></tr>\n</tbody></table></div>\n",
        ),
        (
            "[a](https://example.org/?b=1&c=\"2\")",
            "<p><a href=\"https://example.org/?b=1&amp;c=&quot;2&quot;\" rel=\"noopener noreferrer\">a</a></p>\n",
        ),
    ] {
        assert_eq!(flow(text), expected);
    }
}

#[test]
fn a_line_end_stays_where_the_user_typed_it() {
    assert_eq!(flow("a\nb"), "<p>a\nb</p>\n");
    assert_eq!(rendered("a\nb", LineEnds::Stay), "<p>a<br>\nb</p>\n");
}

#[test]
fn active_content_becomes_text() {
    for (text, expected) in [
        ("a <img src=x onerror=alert(1)>", "<p>a &lt;img src=x onerror=alert(1)&gt;</p>\n"),
        (
            "<script>alert(1)</script>",
            "<pre class=\"markup\">&lt;script&gt;alert(1)&lt;/script&gt;</pre>\n",
        ),
        ("[a](javascript:alert(1))", "<p><span>a <code>javascript:alert(1)</code></span></p>\n"),
        ("[a](JaVaScript:x)", "<p><span>a <code>JaVaScript:x</code></span></p>\n"),
        ("[a](data:text/html,x)", "<p><span>a <code>data:text/html,x</code></span></p>\n"),
        ("[a](../b.html)", "<p><span>a <code>../b.html</code></span></p>\n"),
        (
            "![a](https://example.org/p.png)",
            "<p><span class=\"picture\">Picture: a <code>https://example.org/p.png</code></span></p>\n",
        ),
        ("a\u{1b}[2J\u{202e}b\0", "<p>a␛[2J&lt;U+202E&gt;b␀</p>\n"),
    ] {
        assert_eq!(flow(text), expected);
    }
}

#[test]
fn bottomless_nesting_is_flattened_and_its_text_stays() {
    let page = flow(&format!("{} deep", ">".repeat(5000)));
    assert!(page.contains("deep"));
    assert!(page.matches("<blockquote>").count() <= DEEPEST);
    assert_eq!(page.matches("<blockquote>").count(), page.matches("</blockquote>").count());
}

/// Returns all tags that are not on the list of allowed ones. It looks only at tags, without an HTML parser.
fn foreign_markup(page: &str) -> Vec<String> {
    let mut rest = page;
    let mut found = Vec::new();
    while let Some(at) = rest.find('<') {
        let end = rest[at..].find('>').map_or(rest.len(), |end| at + end + 1);
        let tag = &rest[at..end];
        let is_ours = KNOWN_TAGS.contains(&tag)
            || tag.starts_with("<ol start=\"")
                && tag[11..].trim_end_matches("\">").parse::<u64>().is_ok()
            || is_link(tag);
        if !is_ours {
            found.push(tag.to_owned());
        }
        rest = &rest[end..];
    }
    found
}

fn is_link(tag: &str) -> bool {
    let url = tag
        .strip_prefix("<a href=\"")
        .and_then(|rest| rest.strip_suffix("\" rel=\"noopener noreferrer\">"));
    url.is_some_and(|url| is_allowed_link(url) && !url.contains(['"', '<', '\'']))
}

const KNOWN_TAGS: &[&str] = &[
    "<p>",
    "</p>",
    "<h3>",
    "</h3>",
    "<h4>",
    "</h4>",
    "<h5>",
    "</h5>",
    "<h6>",
    "</h6>",
    "<em>",
    "</em>",
    "<strong>",
    "</strong>",
    "<del>",
    "</del>",
    "<code>",
    "</code>",
    "<pre>",
    "</pre>",
    "<pre class=\"markup\">",
    "<ul>",
    "</ul>",
    "<ol>",
    "</ol>",
    "<li>",
    "</li>",
    "<blockquote>",
    "</blockquote>",
    "<hr>",
    "<br>",
    "<span>",
    "</span>",
    "<span class=\"label\">",
    "<span class=\"picture\">",
    "</a>",
    "<div class=\"table\">",
    "</div>",
    "<table>",
    "</table>",
    "<thead>",
    "</thead>",
    "<tbody>",
    "</tbody>",
    "<tr>",
    "</tr>",
    "<th>",
    "</th>",
    "<td>",
    "</td>",
    "<th class=\"right\">",
    "<th class=\"center\">",
    "<td class=\"right\">",
    "<td class=\"center\">",
];

proptest! {
    #[test]
    fn no_text_adds_its_own_markup(text in "([<>!\\[\\]()`~#=\n *_\\-:/&\\\\|a1.\"']|<b>|\\[a\\]|: |https://|javascript:|mailto:|```|<!--|-->|\n\n|\n\\|-\\|){0,40}") {
        prop_assert_eq!(foreign_markup(&flow(&text)), [] as [&str; 0]);
    }

    #[test]
    fn every_opened_element_is_closed(text in "([<>\\[\\]()`~#=\n *_\\-\\|a1.]|\n\n|\n\\|-\\|\n){0,40}") {
        let page = flow(&text);
        for name in ["p", "li", "ul", "ol", "em", "strong", "code", "pre", "blockquote", "table", "td", "tr", "div"] {
            let begun = page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
            prop_assert_eq!(begun, page.matches(&format!("</{name}>")).count(), "{} in {}", name, page);
        }
    }
}
