//! A rules file. It gives the agent standing instructions, because Cursor's server accepts no system prompt from
//! clients.

/// One `.cursor/rules/<name>.mdc` that applies to every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RulesFile {
    name: String,
    description: String,
    text: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a rules file: use letters, digits, `-` and `_`")]
pub struct RulesNameError(pub String);

impl RulesFile {
    pub fn new(name: &str, description: &str, text: &str) -> Result<Self, RulesNameError> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(RulesNameError(name.to_owned()));
        }
        let (name, description, text) = (name.to_owned(), description.to_owned(), text.to_owned());
        Ok(Self { name, description, text })
    }

    /// Returns the name of the file below `.cursor/rules`.
    pub fn file_name(&self) -> String {
        format!("{}.mdc", self.name)
    }

    /// Returns the bytes of the file, with the text unchanged.
    pub fn to_bytes(&self) -> Vec<u8> {
        let description = yaml_line(&self.description);
        let head = format!("---\ndescription: {description}\nalwaysApply: true\n---\n\n");
        [head.as_bytes(), self.text.as_bytes()].concat()
    }
}

/// Writes text as a double-quoted YAML scalar on one line.
// Characters that a line cannot hold become spaces, not escapes, because the agent's front matter parser may be simpler
// than YAML.
fn yaml_line(text: &str) -> String {
    let unprintable = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || unprintable(c))
        .filter(|word| !word.is_empty())
        .collect();
    format!("\"{}\"", words.join(" ").replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    #[test]
    fn the_file_always_applies_and_keeps_the_text_as_given() {
        let rules = RulesFile::new("caretaker", "House rules: \"be\nkind\"", "---\n# Hi\r\n\ttext")
            .unwrap();
        assert_eq!(rules.file_name(), "caretaker.mdc");
        assert_eq!(
            String::from_utf8(rules.to_bytes()).unwrap(),
            "---\ndescription: \"House rules: \\\"be kind\\\"\"\nalwaysApply: true\n---\n\n---\n# Hi\r\n\ttext"
        );
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in ["", "..", "a/b", "a.b", "a b", "é"] {
            assert_eq!(RulesFile::new(name, "", ""), Err(RulesNameError(name.to_owned())));
        }
    }

    proptest! {
        #[test]
        fn no_description_breaks_out_of_its_line(description in any::<String>(), text in any::<String>()) {
            let bytes = RulesFile::new("r", &description, &text).unwrap().to_bytes();
            let file = String::from_utf8(bytes).unwrap();
            let rest = file.strip_prefix("---\ndescription: \"").unwrap();
            let (quoted, rest) = rest.split_once('\n').unwrap();
            prop_assert_eq!(rest, format!("alwaysApply: true\n---\n\n{text}"));
            let quoted = quoted.strip_suffix('"').unwrap();
            prop_assert!(!quoted.contains(char::is_control));
            // Without the escapes, no quote and no backslash is left that could end the scalar early.
            let bare = quoted.replace("\\\\", "").replace("\\\"", "");
            prop_assert!(!bare.contains(['"', '\\']));
        }
    }
}
