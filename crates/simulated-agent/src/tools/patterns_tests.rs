use proptest::prelude::*;

use super::*;

#[test]
fn the_understood_forms_match_as_in_a_regular_expression() {
    for (pattern, line, expected) in [
        ("needle", "hay needle hay", true),
        ("needle", "hay", false),
        ("^fn ", "fn main() {", true),
        ("^fn ", "pub fn main() {", false),
        ("{$", "fn main() {", true),
        ("^exact$", "exact", true),
        ("^exact$", "not exact", false),
        ("fn .*\\(", "pub fn main() {", true),
        ("a.*b.*c", "xaxbxcx", true),
        ("a.*b.*c", "xcxbxax", false),
        ("^a.*z$", "a to z", true),
        ("^a.*z$", "a to z!", false),
        ("TODO|FIXME", "// FIXME later", true),
        ("^x|y$", "say y", true),
        ("a\\|b", "a|b", true),
        ("a\\|b", "a", false),
        ("1.5", "125", false),
        ("", "anything", true),
        (".*", "", true),
    ] {
        assert_eq!(LinePattern::parse(pattern).matches(line), expected, "{pattern} against {line}");
    }
}

proptest! {
    #[test]
    fn a_text_without_special_characters_is_found_where_it_is(
        before in "[a-c ]{0,5}", needle in "[a-c ]{1,4}", after in "[a-c ]{0,5}",
    ) {
        let line = format!("{before}{needle}{after}");
        prop_assert!(LinePattern::parse(&needle).matches(&line));
        let outer = format!("{before}.*{after}");
        prop_assert!(LinePattern::parse(&outer).matches(&line));
    }

    #[test]
    fn no_pattern_breaks_the_reader(pattern in "[\\\\^$.*|aé]{0,12}", line in "[a-cé^$.*|]{0,12}") {
        LinePattern::parse(&pattern).matches(&line);
    }
}
