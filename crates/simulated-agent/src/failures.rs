//! The ways a turn fails: a text on stderr, exit 1 and no `result`.

/// A failure by the name scripts use.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    pub name: &'static str,
    pub stderr: &'static str,
}

pub const NOT_LOGGED_IN: &str = "Error: Authentication required. Please run 'agent login' first, \
                                 or set CURSOR_API_KEY environment variable.";

/// Yellow even where `TERM=dumb`.
pub const BAD_API_KEY: &str = "\u{1b}[33m⚠ Warning: The provided API key is invalid.\u{1b}[39m";

pub static FAILURES: [Failure; 9] = [
    Failure {
        name: "unavailable",
        stderr: "ConnectError: [unavailable] getaddrinfo EAI_AGAIN api2.cursor.sh",
    },
    Failure { name: "resource-exhausted", stderr: "RetriableError: [resource_exhausted] Error" },
    Failure { name: "invalid-argument", stderr: "RetriableError: [invalid_argument] Error" },
    Failure { name: "deadline-exceeded", stderr: "T: [deadline_exceeded] Error" },
    Failure { name: "canceled", stderr: "ConnectError: [canceled] http/2 stream closed" },
    Failure { name: "usage-limit", stderr: "ActionRequiredError: You've reached your usage limit" },
    Failure { name: "out-of-usage", stderr: "You're out of usage. Switch to Auto." },
    Failure { name: "not-logged-in", stderr: NOT_LOGGED_IN },
    Failure { name: "bad-api-key", stderr: BAD_API_KEY },
];

pub fn find(name: &str) -> Option<&'static Failure> {
    FAILURES.iter().find(|failure| failure.name == name)
}
