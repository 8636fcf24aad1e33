//! The keys of the key-value tables: their families, and key ranges. Never uses a pattern, because that would scan the
//! table.

use std::ops::Range;

pub(crate) const COMPOSER: &str = "composerData:";
pub(crate) const BUBBLE: &str = "bubbleId:";
pub(crate) const BLOB: &str = "agentKv:blob:";
pub(crate) const CHECKPOINT: &str = "agentKv:checkpoint:";
pub(crate) const BUBBLE_CHECKPOINT: &str = "agentKv:bubbleCheckpoint:";

pub(crate) const REQUEST_CONTEXT: &str = "messageRequestContext:";
pub(crate) const BLOCK_DIFF: &str = "codeBlockDiff:";
pub(crate) const FILE_CHECKPOINT: &str = "checkpointId:";

/// Families of rows that belong to a conversation's messages: `<family><composer>:<id>`.
pub(crate) const SIDE_FAMILIES: [&str; 4] =
    [REQUEST_CONTEXT, BLOCK_DIFF, FILE_CHECKPOINT, "codeBlockPartialInlineDiffFates:"];

/// The families whose rows become parts of messages. Caretaker only searches and counts the others.
pub(crate) const TOLD_FAMILIES: [&str; 3] = [REQUEST_CONTEXT, BLOCK_DIFF, FILE_CHECKPOINT];

/// Older builds name a sub-agent only by the call that started it.
pub(crate) const TASK: &str = "task-";

/// From one key up to, but not including, another.
pub(crate) type KeyRange = Range<String>;

/// All keys that begin with `prefix`.
pub(crate) fn beginning_with(prefix: &str) -> KeyRange {
    prefix.to_owned()..after(prefix)
}

/// The keys of a composer's rows in a family. The range also covers other composers whose id begins with this id and a
/// colon.
pub(crate) fn of_composer(family: &str, composer: &str) -> KeyRange {
    beginning_with(&format!("{family}{composer}:"))
}

/// Only this key.
pub(crate) fn only(key: &str) -> KeyRange {
    key.to_owned()..format!("{key}\0")
}

/// The key of a conversation's own row.
pub(crate) fn composer(id: &str) -> String {
    format!("{COMPOSER}{id}")
}

/// The first key after all keys that begin with `prefix`.
pub(crate) fn after(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = u32::from(last) + 1;
        // The code points in between are not characters.
        let next = if next == 0xD800 { 0xE000 } else { next };
        if let Some(next) = char::from_u32(next) {
            text.push(next);
            return text;
        }
    }
    // No key sorts after all keys with this prefix, but no real key is as large as this one.
    "\u{10FFFF}\u{10FFFF}".to_owned()
}

/// Splits a key into its composer and the rest. Call ids may contain colons, row ids do not.
pub(crate) fn split<'a>(family: &str, key: &'a str) -> Option<(&'a str, &'a str)> {
    key.strip_prefix(family)?.rsplit_once(':')
}

/// Splits all keys that begin with `prefix` into ranges for several threads. The ranges are about equal if ids are
/// hexadecimal. `n_digits` is the number of digits to split by.
pub(crate) fn slices(prefix: &str, n_digits: usize) -> Vec<KeyRange> {
    let n_slices = 16_usize.pow(u32::try_from(n_digits).unwrap_or(1));
    let mut bounds = vec![prefix.to_owned()];
    bounds.extend((1..n_slices).map(|number| format!("{prefix}{number:0n_digits$x}")));
    // Task ids sort after all digits.
    bounds.extend(
        ["g", "task-d", "task-toolu_01", "task-toolu_c", "u"].map(|mark| format!("{prefix}{mark}")),
    );
    bounds.push(after(prefix));
    bounds.windows(2).map(|pair| pair[0].clone()..pair[1].clone()).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_split_at_its_last_colon_because_calls_have_colons_and_line_feeds() {
        assert_eq!(split(BUBBLE, "bubbleId:c:b"), Some(("c", "b")));
        assert_eq!(split(BUBBLE, "bubbleId:task-call_1\nfc_2:b"), Some(("task-call_1\nfc_2", "b")));
        assert_eq!(
            split(BUBBLE, "bubbleId:task-functions.task:0:b"),
            Some(("task-functions.task:0", "b"))
        );
        assert_eq!(split(BUBBLE, "bubbleId:c"), None);
        assert_eq!(split(BUBBLE, "composerData:c:b"), None);
    }

    #[test]
    fn a_range_ends_where_the_prefix_does() {
        assert_eq!(
            beginning_with("composerData:"),
            "composerData:".to_owned().."composerData;".to_owned()
        );
        assert_eq!(of_composer(BUBBLE, "c"), "bubbleId:c:".to_owned().."bubbleId:c;".to_owned());
    }

    proptest! {
        #[test]
        fn every_key_of_a_family_is_in_exactly_one_slice(id in "[ -~\n]{0,12}|[0-9a-f]{8}|task-[a-z_0-9]{4}") {
            let key = format!("{BUBBLE}{id}");
            for n_digits in [1, 2] {
                let n_slices = slices(BUBBLE, n_digits).iter().filter(|slice| slice.contains(&key)).count();
                prop_assert_eq!(n_slices, 1);
            }
        }

        #[test]
        fn every_key_with_a_prefix_is_in_its_range(prefix in "\\PC{1,4}", rest in "\\PC{0,4}", other in "\\PC{0,4}") {
            let range = beginning_with(&prefix);
            let key = format!("{prefix}{rest}");
            prop_assert!(range.contains(&key));
            prop_assert_eq!(range.contains(&other), other.starts_with(&prefix));
        }
    }
}
