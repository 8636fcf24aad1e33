//! Makes untrusted text harmless to a terminal and not misleading to a reader.
//!
//! Escape sequences could change or control the terminal, and bidirectional controls could disguise the command that
//! ran. This module replaces each such character with a visible one.

use std::borrow::Cow;

/// Keeps line feeds and tabs, for text on several lines.
pub fn on_lines(text: &str) -> Cow<'_, str> {
    neutralise(text, |character| matches!(character, '\n' | '\t'))
}

/// Also replaces line feeds, for text that must stay on one line.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    neutralise(text, |_| false)
}

/// For a line of JSON: writes control characters as equivalent JSON escapes.
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
    // `\r\n` is an ordinary line end in the output of some tools.
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
        // Unicode has a visible symbol for each of these.
        code @ 0..=0x1F => into.extend(char::from_u32(0x2400 + code)),
        0x7F => into.push('\u{2421}'),
        code => into.push_str(&format!("<U+{code:04X}>")),
    }
}

#[cfg(test)]
#[path = "safe_text_tests.rs"]
mod tests;
