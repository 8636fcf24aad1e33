//! Repairs `\ud83d` without its other half, so that a parser can read the rest of the line.
//!
//! A JavaScript string may contain half a surrogate pair. `JSON.stringify` writes it as an escape, and a Rust string
//! cannot contain it. This happens when a model's output is cut in the middle of an emoji.

/// Replaces every lone surrogate escape with `\ufffd`; `None` if there is none.
///
/// Called on every line: a line without a backslash costs one quick pass.
pub fn mend(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let mut mended = String::new();
    let mut copied_to = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let escape = at + found;
        match unit_at(bytes, escape) {
            Some(0xD800..=0xDBFF)
                if matches!(unit_at(bytes, escape + 6), Some(0xDC00..=0xDFFF)) =>
            {
                at = escape + 12;
            }
            Some(0xD800..=0xDFFF) => {
                mended.push_str(&json[copied_to..escape]);
                mended.push_str("\\ufffd");
                at = escape + 6;
                copied_to = at;
            }
            // Also skips the escaped character: the second backslash of `\\u` does not begin an escape.
            _ => at = (escape + 2).min(bytes.len()),
        }
    }
    (copied_to > 0).then(|| {
        mended.push_str(&json[copied_to..]);
        mended
    })
}

/// The UTF-16 unit of the `\uXXXX` at this position.
fn unit_at(bytes: &[u8], at: usize) -> Option<u16> {
    // Nearly all escapes are line feeds and quotes.
    if bytes.get(at + 1) != Some(&b'u') {
        return None;
    }
    let escape = bytes.get(at..at + 6)?;
    let digits =
        escape.strip_prefix(b"\\u").filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
#[path = "surrogates_tests.rs"]
mod tests;
