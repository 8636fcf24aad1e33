//! What a model is called for people.

/// Writes a model's id as its maker writes the name: `claude-4.5-sonnet-thinking` is `Claude 4.5 Sonnet Thinking`. What
/// is a name already stays as it is.
#[must_use]
pub fn display_model(id: &str) -> String {
    if matches!(id, "" | "default" | "auto") {
        return "Auto".to_owned();
    }
    let is_name = id.contains([' ', '/', ':']) || id.chars().any(char::is_uppercase);
    if is_name {
        return id.to_owned();
    }
    let mut name = String::new();
    let mut before = Word::Other;
    for word in id.split(['-', '_']).filter(|word| !word.is_empty()) {
        let kind = Word::of(word);
        name.push_str(match (before, kind) {
            _ if name.is_empty() => "",
            // `4-5` is a version as `4.5` is.
            (Word::Digits, Word::Digits) => ".",
            (Word::Gpt, Word::Digits | Word::Version) => "-",
            _ => " ",
        });
        name.push_str(&match kind {
            Word::Gpt => "GPT".to_owned(),
            _ => capitalised(word),
        });
        before = kind;
    }
    name
}

#[derive(Clone, Copy)]
enum Word {
    Gpt,
    /// One or two digits: a part of a version. A date has more.
    Digits,
    /// `5.2`, `4o`.
    Version,
    Other,
}

impl Word {
    fn of(word: &str) -> Self {
        let begins_with_digit = word.starts_with(|c: char| c.is_ascii_digit());
        if word == "gpt" {
            Self::Gpt
        } else if begins_with_digit
            && word.len() <= 2
            && word.bytes().all(|byte| byte.is_ascii_digit())
        {
            Self::Digits
        } else if begins_with_digit {
            Self::Version
        } else {
            Self::Other
        }
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::display_model;

    #[test]
    fn ids_read_like_names() {
        for (id, name) in [
            ("claude-4.5-sonnet-thinking", "Claude 4.5 Sonnet Thinking"),
            ("claude-opus-4-1", "Claude Opus 4.1"),
            ("gpt-5.2-codex-high", "GPT-5.2 Codex High"),
            ("gpt-4o", "GPT-4o"),
            ("composer-1.5", "Composer 1.5"),
            ("gemini-3-pro", "Gemini 3 Pro"),
            ("grok", "Grok"),
            ("default", "Auto"),
            ("Claude 4.5 Sonnet", "Claude 4.5 Sonnet"),
            ("vendor/model:free", "vendor/model:free"),
        ] {
            assert_eq!(display_model(id), name);
        }
    }
}
