use std::error::Error;

/// An error and its causes on one line. Does not repeat a cause that the text already ends with: some libraries quote
/// their cause in their own message.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::with_causes;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str, #[source] Option<Box<Self>>);

    #[test]
    fn every_cause_appears_only_once() {
        let root = Said("no space left", None);
        let middle = Said("the write failed: no space left", Some(Box::new(root)));
        let top = Said("the journal cannot grow", Some(Box::new(middle)));
        assert_eq!(with_causes(&top), "the journal cannot grow: the write failed: no space left");
    }
}
