//! Reports command-line mistakes in commander's words.

use clap::error::{ContextKind, ContextValue, ErrorKind};

pub(super) fn in_words(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument if !argument.starts_with('-') => {
            format!("error: too many arguments: '{argument}'")
        }
        ErrorKind::UnknownArgument => {
            format!(
                "error: unknown option '{argument}'{}",
                did_you_mean(&text(ContextKind::SuggestedArg))
            )
        }
        // commander treats `--print=yes` as an unknown name.
        ErrorKind::TooManyValues => {
            let name = argument.split(' ').next().unwrap_or_default();
            format!("error: unknown option '{name}={}'", text(ContextKind::InvalidValue))
        }
        ErrorKind::InvalidSubcommand => {
            let similar = text(ContextKind::SuggestedSubcommand);
            let name = text(ContextKind::InvalidSubcommand);
            format!("error: unknown command '{name}'{}", did_you_mean(&similar))
        }
        ErrorKind::MissingRequiredArgument => {
            let name = argument.trim_matches(['<', '>']).to_lowercase();
            format!("error: missing required argument '{name}'")
        }
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => {
            format!("error: option '{argument}' argument missing")
        }
        ErrorKind::InvalidValue => format!(
            "error: option '{argument}' argument '{}' is invalid. Allowed choices are {}.",
            text(ContextKind::InvalidValue),
            text(ContextKind::ValidValue)
        ),
        _ => error.to_string().trim_end().to_owned(),
    }
}

/// clap lists the most similar name last.
fn did_you_mean(similar: &str) -> String {
    match similar.rsplit(", ").next() {
        None | Some("") => String::new(),
        Some(nearest) => format!("\n(Did you mean {nearest}?)"),
    }
}
