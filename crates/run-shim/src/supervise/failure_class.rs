//! Finds the kind of failure from the agent's stderr and exit code, never from stdout.
//!
//! ```text
//!   stderr ──► lines ──► without colours, stack frames, mirrored JSON ──► the last line that names a cause
//! ```

mod stderr_lines;

use run_protocol::FailureClass;

use stderr_lines::{one_line, telling_lines};

/// The longest quotation. When the agent refuses a model, it lists ten kilobytes of other models.
const MOST_QUOTED_CHARS: usize = 200;

/// Finds the kind of failure. A signal, or an exit code for a signal, takes precedence over any text.
pub(crate) fn classify(stderr: &str, exit_code: Option<i32>, signal: Option<i32>) -> FailureClass {
    // Node catches SIGINT and SIGTERM and exits with 128 plus the signal's number, like a shell and bwrap for a child.
    let is_signal_code = exit_code.is_some_and(|code| (129..=159).contains(&code));
    if signal.is_some() || is_signal_code {
        return FailureClass::Killed;
    }
    cause(stderr).map_or(FailureClass::Other, |(class, _)| class)
}

/// Describes the failure in one sentence. Quotes the agent if its own words help.
pub(crate) fn sentence(class: FailureClass, stderr: &str) -> String {
    let line = cause(stderr).filter(|(found, _)| *found == class).map(|(_, line)| line);
    let line = line.as_deref();
    match class {
        FailureClass::Auth if line.is_some_and(|line| has_phrase(line, "api key is invalid")) => {
            "the agent's API key is not valid".to_owned()
        }
        FailureClass::Auth => {
            "the agent is not logged in: run `cursor-agent login`, or set CURSOR_API_KEY".to_owned()
        }
        FailureClass::Trust => "the agent does not trust the workspace".to_owned(),
        FailureClass::BadModel => match line.and_then(refused_model) {
            Some(model) => format!("the model `{model}` is not available"),
            None => with_quotation("the model is not available", line),
        },
        FailureClass::RateLimited => {
            with_quotation("the service has no capacity for this request now", line)
        }
        FailureClass::UsageLimit => with_quotation("the plan's usage limit is reached", line),
        FailureClass::Network => {
            with_quotation("the agent could not reach the service, or lost the connection", line)
        }
        FailureClass::ConfigRace => {
            "another agent wrote cli-config.json at the same moment".to_owned()
        }
        FailureClass::SessionInUse => with_quotation("another agent holds the session", line),
        FailureClass::Killed if telling_lines(stderr).any(|line| is_out_of_memory(&line)) => {
            "the agent ran out of memory and was aborted".to_owned()
        }
        FailureClass::Killed => {
            "the agent was killed by a signal that Caretaker did not send".to_owned()
        }
        FailureClass::Other => match last_words(stderr) {
            Some(line) => with_quotation("the agent failed", Some(&line)),
            None => "the agent failed without a message".to_owned(),
        },
    }
}

/// Finds the last line that names a cause. Notices of a reconnection count only if there is no other cause, because
/// most reconnections succeed.
fn cause(stderr: &str) -> Option<(FailureClass, String)> {
    let named = telling_lines(stderr).find_map(|line| Some((class_of(&line)?, line)));
    named.or_else(|| {
        let notice = telling_lines(stderr).find(|line| is_reconnection_notice(line))?;
        Some((FailureClass::Network, notice))
    })
}

/// Phrases that name a class anywhere in a line, in search order.
const PHRASES: [(FailureClass, &[&str]); 6] = [
    (
        FailureClass::Auth,
        &[
            "authentication required",
            "api key is invalid",
            "invalid api key",
            "not logged in",
            "[unauthenticated]",
            "invalid_grant",
        ],
    ),
    (FailureClass::Trust, &["workspace trust required"]),
    (
        FailureClass::BadModel,
        &[
            "cannot use this model",
            "model not found",
            "invalid model",
            "model name is not valid",
            // The plan is not spent: it never had this model. The second line may be all that is left.
            "named models unavailable",
            "free plans can only use auto",
        ],
    ),
    (
        FailureClass::UsageLimit,
        &[
            "usage limit",
            "usage limits",
            "out of usage",
            "spend limit",
            "spending limit",
            "monthly limit",
            "free requests limit",
            "actionrequirederror",
        ],
    ),
    (
        FailureClass::RateLimited,
        &[
            "[resource_exhausted]",
            "resource_exhausted",
            "rate limit",
            "rate limits",
            "rate limited",
            "rate-limited",
            "ratelimited",
            "too many requests",
            "http 429",
            "status 429",
            "status code 429",
        ],
    ),
    (
        FailureClass::Network,
        &[
            "[unavailable]",
            "[deadline_exceeded]",
            "[canceled]",
            "[aborted]",
            "enotfound",
            "eai_again",
            "econnrefused",
            "econnreset",
            "econnaborted",
            "etimedout",
            "enetunreach",
            "ehostunreach",
            "getaddrinfo",
            "socket hang up",
            "http/2 stream closed",
            "fetch failed",
            "network error",
            "self-signed certificate",
            "unable to get local issuer certificate",
            "unable to verify the first certificate",
        ],
    ),
];

fn class_of(line: &str) -> Option<FailureClass> {
    let has = |phrase: &str| has_phrase(line, phrase);
    if has("enoent") && has("rename") && has("cli-config.json.tmp") {
        return Some(FailureClass::ConfigRace);
    }
    if has("session id") && has("already in use") || has("could not verify its persistent session")
    {
        return Some(FailureClass::SessionInUse);
    }
    // The agent also prints this for an id that is not a UUID, but then no other agent holds the session.
    if has("failed to claim persistent session") {
        return Some(if has("must be a uuid") {
            FailureClass::Other
        } else {
            FailureClass::SessionInUse
        });
    }
    let named = PHRASES.iter().find(|(_, phrases)| phrases.iter().any(|phrase| has(phrase)));
    match named {
        Some((class, _)) => Some(*class),
        // The code in brackets is more precise than the error's name: a refused argument is not a lost connection.
        None if has("connecterror") && !has_status_code(line) => Some(FailureClass::Network),
        None => None,
    }
}

fn is_reconnection_notice(line: &str) -> bool {
    has_phrase(line, "connection lost, reconnecting") || has_phrase(line, "retry attempt")
}

fn is_out_of_memory(line: &str) -> bool {
    has_phrase(line, "heap out of memory") || has_phrase(line, "out of memory")
}

/// Returns whether a line has one of the agent's RPC status codes, such as `[invalid_argument]`.
fn has_status_code(line: &str) -> bool {
    let codes = line.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
    codes.into_iter().any(|(code, _)| {
        !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    })
}

/// Finds an ASCII phrase in a line, ignoring case, but only as whole words.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_word = |character: Option<char>| {
        character.is_some_and(|character| character.is_alphanumeric() || character == '_')
    };
    let (begins_as_word, ends_as_word) =
        (is_word(phrase.chars().next()), is_word(phrase.chars().next_back()));
    let windows = line.as_bytes().windows(phrase.len()).enumerate();
    let mut found = windows.filter(|(_, window)| window.eq_ignore_ascii_case(phrase.as_bytes()));
    found.any(|(start, _)| {
        let before = line.get(..start).and_then(|before| before.chars().next_back());
        let after = line.get(start + phrase.len()..).and_then(|after| after.chars().next());
        let is_inside_word = begins_as_word && is_word(before) || ends_as_word && is_word(after);
        !is_inside_word
    })
}

fn refused_model(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("annot use this model: ")?;
    let model = rest.split_once(". Available models").map_or(rest, |(model, _)| model);
    Some(cut(model.trim_end_matches('.')))
}

/// Returns the last line that calls itself an error, or else the last line with a message.
fn last_words(stderr: &str) -> Option<String> {
    let is_error = |line: &String| {
        let head = line.split(':').next().unwrap_or_default();
        head.len() < line.len() && head.to_ascii_lowercase().ends_with("error")
    };
    telling_lines(stderr)
        .find(is_error)
        .or_else(|| telling_lines(stderr).find(|line| !is_reconnection_notice(line)))
        .or_else(|| telling_lines(stderr).next())
}

fn with_quotation(statement: &str, line: Option<&str>) -> String {
    match line {
        Some(line) => format!("{statement}: {}", cut(line.trim_end_matches('.'))),
        None => statement.to_owned(),
    }
}

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(MOST_QUOTED_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    one_line(&shown)
}

#[cfg(test)]
#[path = "failure_class_tests.rs"]
mod tests;
