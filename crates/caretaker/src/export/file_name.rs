//! The name of a conversation's file.

use sha2::{Digest, Sha256};

use super::Format;

/// Longer than any of Cursor's ids.
const LONGEST_ID: usize = 64;

/// Returns the same name for the same id, and different names for different ids. The name is always plain, although the
/// id comes from a store and may be any text.
pub(crate) fn file_name(id: &str, format: Format) -> String {
    let extension = format.extension();
    if is_plain(id) {
        return format!("{id}.{extension}");
    }
    // A plain id has no underscore, so a hashed name cannot equal a plain one.
    let hash = hex::encode(Sha256::digest(id));
    format!("session_{hash:.32}.{extension}")
}

/// True if the id can be a file name. Capital letters cannot: some file systems ignore case.
fn is_plain(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !id.is_empty() && id.len() <= LONGEST_ID && !id.starts_with('-') && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plain_id_names_its_file_and_any_other_id_is_hashed() {
        let uuid = "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11";
        assert_eq!(file_name(uuid, Format::Markdown), format!("{uuid}.md"));
        for id in ["../../etc/passwd", "", ".", "-rf", "a/b", "CON", "a\0b", "é", &"x".repeat(65)]
        {
            let name = file_name(id, Format::Json);
            assert!(name.starts_with("session_") && name.len() == 8 + 32 + 5, "{id}: {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_harmless_and_no_two_ids_share_one(one in "[-a-zA-Z0-9_./]{0,4}|\\PC{0,8}", other in "[-a-zA-Z0-9_./]{0,4}|\\PC{0,8}") {
            let names = [&one, &other].map(|id| file_name(id, Format::Html).to_lowercase());
            prop_assert_eq!(names[0] == names[1], one == other);
            let is_harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            prop_assert!(names[0].chars().all(is_harmless) && !names[0].starts_with(['.', '-']));
        }
    }
}
