use pretty_assertions::assert_eq;

use super::*;

#[test]
fn numbers_may_have_a_suffix_and_other_text_is_refused() {
    let parsed = |text: &str| text.parse::<CountLimit>().map(|limit| limit.0);
    assert_eq!(
        ["500", "20k", "5M", "none", "0"].map(|it| parsed(it).unwrap()),
        [500, 20_000, 5_000_000, 0, 0]
    );
    for text in ["", "k", "-1", "+1", "1.5M", "many", "99999999999999999999", "20000000000000000M"]
    {
        assert_eq!(parsed(text), Err(NotACount(text.to_owned())), "{text}");
    }
}
