//! The ways a turn fails: a message on stderr, exit 1 and no `result`.

/// A failure by the name that scripts use.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub name: &'static str,
    pub stderr: &'static str,
}

pub const NOT_LOGGED_IN: &str = "Error: Authentication required. Please run 'agent login' first, \
                                 or set CURSOR_API_KEY environment variable.";

/// The real agent prints it in yellow even where `TERM=dumb`.
pub const BAD_API_KEY: &str = "\u{1b}[33m⚠ Warning: The provided API key is invalid.\u{1b}[39m";

pub const UNAVAILABLE: &str = "ConnectError: [unavailable] getaddrinfo EAI_AGAIN api2.cursor.sh";

const fn failure(name: &'static str, stderr: &'static str) -> Failure {
    Failure { name, stderr }
}

pub static FAILURES: [Failure; 10] = [
    failure("unavailable", UNAVAILABLE),
    failure("resource-exhausted", "RetriableError: [resource_exhausted] Error"),
    failure("invalid-argument", "RetriableError: [invalid_argument] Error"),
    failure("deadline-exceeded", "T: [deadline_exceeded] Error"),
    failure("canceled", "ConnectError: [canceled] http/2 stream closed"),
    failure("usage-limit", "ActionRequiredError: You've reached your usage limit"),
    failure("out-of-usage", "You're out of usage. Switch to Auto."),
    failure(
        "named-models",
        "ActionRequiredError: Named models unavailable Free plans can only use Auto",
    ),
    failure("not-logged-in", NOT_LOGGED_IN),
    failure("bad-api-key", BAD_API_KEY),
];

pub fn find(name: &str) -> Option<&'static Failure> {
    FAILURES.iter().find(|failure| failure.name == name)
}
