//! Makes text from others harmless to a terminal and honest to a reader.
//!
//! Escape sequences could recolour, retitle, move or answer for the terminal; bidirectional controls could show a
//! command other than the one that ran. Each such character is shown by a visible stand-in instead.

use std::borrow::Cow;

/// Keeps line feeds and tabs, for text that may span lines.
pub fn on_lines(text: &str) -> Cow<'_, str> {
    neutralise(text, |character| matches!(character, '\n' | '\t'))
}

/// Shows line feeds too as stand-ins, for text that must stay on its line.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    neutralise(text, |_| false)
}

/// For a line of JSON: what a terminal would obey is written as JSON's own escapes, which mean the same.
pub fn in_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_control) {
        return json.into();
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_control(character) {
            safe.push_str(&format!("\\u{:04x}", character as u32));
        } else {
            safe.push(character);
        }
    }
    safe.into()
}

fn neutralise(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    // `\r\n` is an ordinary line end of tool output from elsewhere.
    let text: Cow<'_, str> =
        if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() };
    let is_dangerous = |character: char| is_control(character) && !keep(character);
    if !text.contains(is_dangerous) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_dangerous(character) {
            stand_in(character, &mut safe);
        } else {
            safe.push(character);
        }
    }
    safe.into()
}

fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

fn stand_in(character: char, into: &mut String) {
    match character as u32 {
        // Unicode has a picture for each of these.
        code @ 0..=0x1F => into.extend(char::from_u32(0x2400 + code)),
        0x7F => into.push('\u{2421}'),
        code => into.push_str(&format!("<U+{code:04X}>")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_overrides_become_visible() {
        assert_eq!(on_lines("a\u{1b}[31mb\r\nc\td"), "a␛[31mb\nc\td");
        assert_eq!(on_lines("\u{202e}txt.exe\u{9b}1m\u{7f}"), "<U+202E>txt.exe<U+009B>1m␡");
        assert_eq!(on_one_line("call_1\nfc_2"), "call_1␊fc_2");
    }

    #[test]
    fn json_keeps_its_meaning_and_loses_its_teeth() {
        let json = serde_json::to_string("a\u{9b}1m\u{7f}\u{202e}b\n").unwrap();
        let safe = in_json(&json);
        assert_eq!(safe, r#""a\u009b1m\u007f\u202eb\n""#);
        assert_eq!(
            serde_json::from_str::<String>(&safe).unwrap(),
            serde_json::from_str::<String>(&json).unwrap()
        );
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(on_lines("plain — ünïcode 👩‍👩‍👧\n"), Cow::Borrowed(_)));
    }
}
