//! The lines of stderr that may name a cause: without colours, stack frames and mirrored stdout.

/// The longest known message is ten kilobytes long. A longer line is a piece of a mirrored event. Such a piece may fill
/// all sixteen kilobytes of stderr that the shim keeps.
const MOST_LINE_BYTES: usize = 15 * 1024;

/// Returns the lines that may name a cause, last line first, without escape sequences and outer spaces.
pub(super) fn telling_lines(stderr: &str) -> impl Iterator<Item = String> + '_ {
    // A carriage return also starts a new line.
    let lines = stderr.rsplit(['\n', '\r']).filter(|line| line.len() <= MOST_LINE_BYTES);
    lines.filter_map(|line| {
        let line = one_line(before_json(line)?);
        let line = line.trim();
        let is_stack_frame = line.starts_with("at ");
        let is_node_warning = line.starts_with("(node:");
        let says_something = line.contains(char::is_alphanumeric);
        (says_something && !is_stack_frame && !is_node_warning).then(|| line.to_owned())
    })
}

/// Returns the part of a line before any JSON in it. Builds from early 2026 also printed every event on stderr, and the
/// agent's text in them may have words such as "rate limit". A line that lost its beginning or end may be the middle of
/// such an event. The punctuation of compact JSON shows that.
fn before_json(line: &str) -> Option<&str> {
    // Inside a JSON string, a bare quotation mark follows a brace or a bracket only at the string's end.
    const STARTS: [&str; 2] = ["{\"", "[\""];
    const INSIDES: [&str; 6] = ["\",\"", "\":\"", "\":{", "\":[", "\"}", "\"]"];
    let start = STARTS.iter().filter_map(|start| line.find(start)).min();
    let start = start.filter(|start| line.get(*start..).is_some_and(is_json));
    let before = line.get(..start.unwrap_or(line.len()))?;
    let is_piece = INSIDES.iter().any(|inside| before.contains(inside));
    // Some wrappers print the name of the stream first.
    let is_name_of_stream = matches!(before.trim(), "stdout:" | "stderr:");
    (!is_piece && !is_name_of_stream).then_some(before)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Removes escape sequences, and replaces every other control character with a space.
pub(super) fn one_line(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_escape(&mut characters),
            '\u{9b}' => skip_until_final_byte(&mut characters),
            character if character.is_control() => plain.push(' '),
            character => plain.push(character),
        }
    }
    plain
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_escape(characters: &mut Characters<'_>) {
    match characters.peek() {
        Some('[') => {
            characters.next();
            skip_until_final_byte(characters);
        }
        // A title or a link ends with BEL or with another escape.
        Some(']') => {
            while let Some(character) = characters.next() {
                match character {
                    '\u{7}' => return,
                    '\u{1b}' => {
                        characters.next_if_eq(&'\\');
                        return;
                    }
                    _ => {}
                }
            }
        }
        Some(_) => {
            characters.next();
        }
        None => {}
    }
}

fn skip_until_final_byte(characters: &mut Characters<'_>) {
    while characters.next_if(|character| (' '..='?').contains(character)).is_some() {}
    characters.next_if(|character| ('@'..='~').contains(character));
}
