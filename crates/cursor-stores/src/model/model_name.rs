//! Readable model names.

/// The known models, by their id or by their id without a default setting.
const NAMES: &[(&str, &str)] = &[
    ("auto", "Auto"),
    ("default", "Auto"),
    ("composer-1", "Composer 1"),
    ("composer-1.5", "Composer 1.5"),
    ("composer-2", "Composer 2"),
    ("composer-2.5", "Composer 2.5"),
    ("claude-4-sonnet", "Claude Sonnet 4"),
    ("claude-4-opus", "Claude Opus 4"),
    ("claude-4.5-haiku", "Claude Haiku 4.5"),
    ("claude-4.5-sonnet", "Claude Sonnet 4.5"),
    ("sonnet-4.5", "Claude Sonnet 4.5"),
    ("claude-4.5-opus", "Claude Opus 4.5"),
    ("claude-4.5-opus-high", "Claude Opus 4.5"),
    ("opus-4.5", "Claude Opus 4.5"),
    ("claude-4.6-sonnet", "Claude Sonnet 4.6"),
    ("sonnet-4.6", "Claude Sonnet 4.6"),
    ("claude-4.6-opus", "Claude Opus 4.6"),
    ("opus-4.6", "Claude Opus 4.6"),
    ("gpt-4.1", "GPT-4.1"),
    ("gpt-4o", "GPT-4o"),
    ("gpt-5", "GPT-5"),
    ("gpt-5-mini", "GPT-5 Mini"),
    ("gpt-5.1", "GPT-5.1"),
    ("gpt-5.1-codex", "GPT-5.1 Codex"),
    ("gpt-5.1-codex-mini", "GPT-5.1 Codex Mini"),
    ("gpt-5.2", "GPT-5.2"),
    ("gpt-5.2-codex", "GPT-5.2 Codex"),
    ("gpt-5.3-codex", "GPT-5.3 Codex"),
    ("gpt-5.4", "GPT-5.4"),
    ("gpt-5.4-mini", "GPT-5.4 Mini"),
    ("gpt-5.4-nano", "GPT-5.4 Nano"),
    ("gpt-5.5", "GPT-5.5"),
    ("gemini-2.5-flash", "Gemini 2.5 Flash"),
    ("gemini-2.5-pro", "Gemini 2.5 Pro"),
    ("gemini-3-flash", "Gemini 3 Flash"),
    ("gemini-3-pro", "Gemini 3 Pro"),
    ("gemini-3.1-pro", "Gemini 3.1 Pro"),
    ("grok-4", "Grok 4"),
    ("grok-code-fast-1", "Grok Code Fast 1"),
    ("kimi-k2.5", "Kimi K2.5"),
];

/// Model settings: words that may follow any id.
const SETTINGS: &[(&str, &str)] = &[
    ("-low", " Low"),
    ("-medium", " Medium"),
    ("-high", " High"),
    ("-xhigh", " Extra High"),
    ("-max", " Max"),
    ("-fast", " Fast"),
    ("-thinking", " (Thinking)"),
];

/// Returns the name that people use for a model: `claude-4.5-opus-high-thinking` is `Claude Opus 4.5 (Thinking)`. An
/// unknown id, or a name, stays unchanged.
#[must_use]
pub fn display_model(id: &str) -> String {
    known_name(id).unwrap_or_else(|| id.to_owned())
}

fn known_name(id: &str) -> Option<String> {
    if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == id) {
        return Some((*name).to_owned());
    }
    SETTINGS.iter().find_map(|(ending, words)| {
        Some(format!("{}{words}", known_name(id.strip_suffix(ending)?)?))
    })
}

/// Returns one spelling for a model's id and for Cursor's name for the model, so that the two can be compared:
/// `claude-4.5-sonnet` and `Claude 4.5 Sonnet`. Not for display.
pub(crate) fn comparable_model(id: &str) -> String {
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
            // `4-5` is a version, just like `4.5`.
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
    /// One or two digits: part of a version. A date has more.
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

    use super::{comparable_model, display_model};

    #[test]
    fn known_models_get_readable_names_and_others_stay_unchanged() {
        for (id, name) in [
            ("claude-4.5-opus-high-thinking", "Claude Opus 4.5 (Thinking)"),
            ("claude-4.5-sonnet-thinking", "Claude Sonnet 4.5 (Thinking)"),
            ("opus-4.6-high-fast", "Claude Opus 4.6 High Fast"),
            ("gpt-5.2-codex-xhigh", "GPT-5.2 Codex Extra High"),
            ("gpt-4o", "GPT-4o"),
            ("grok-code-fast-1", "Grok Code Fast 1"),
            ("auto", "Auto"),
            ("claude-9-fable", "claude-9-fable"),
            ("claude-9-fable-thinking", "claude-9-fable-thinking"),
            ("Claude 4.5 Sonnet", "Claude 4.5 Sonnet"),
            ("vendor/gpt-5:free", "vendor/gpt-5:free"),
            ("-thinking", "-thinking"),
            ("", ""),
        ] {
            assert_eq!(display_model(id), name);
        }
    }

    #[test]
    fn a_models_id_and_its_cursor_name_become_the_same_spelling() {
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
            assert_eq!(comparable_model(id), name);
        }
    }
}
