//! N3: names that are not on the list, disguised so that a careless parser would take them for one that is.
//!
//! `allowed.test` and everything below `below.test` are on the list; `denied.test` is not. Each row also has a careless
//! parser that would let it through: a row that fools no parser would prove nothing.

/// A disguised name.
#[derive(Debug)]
pub struct Smuggled {
    pub id: &'static str,
    pub does: &'static str,
    pub name: &'static str,
    /// The name as the careless parser reads it.
    pub read_as: fn(&str) -> String,
}

pub const SMUGGLED: &[Smuggled] = &[
    Smuggled {
        id: "N3a",
        does: "hides a denied name before a NUL",
        name: "denied.test\0.below.test",
        // Checks the end of the whole text, but connects to the C string before the NUL.
        read_as: str::to_owned,
    },
    Smuggled {
        id: "N3b",
        does: "ends an allowed name with a NUL",
        name: "allowed.test\0",
        read_as: |name| name.split('\0').next().unwrap_or_default().to_owned(),
    },
    Smuggled {
        id: "N3c",
        does: "puts a control byte into an allowed name",
        name: "allowed\x01.test",
        read_as: |name| name.replace(|c: char| c.is_control(), ""),
    },
    Smuggled {
        id: "N3d",
        does: "ends an allowed name with a carriage return",
        name: "allowed.test\r",
        read_as: |name| name.trim_end().to_owned(),
    },
    Smuggled {
        id: "N3e",
        does: "ends an allowed name with a line feed",
        name: "allowed.test\n",
        read_as: |name| name.trim_end().to_owned(),
    },
    Smuggled {
        id: "N3f",
        does: "ends an allowed name with a dot",
        name: "allowed.test.",
        read_as: |name| name.trim_end_matches('.').to_owned(),
    },
    Smuggled {
        id: "N3g",
        does: "writes an allowed name in upper case",
        name: "Allowed.test",
        read_as: str::to_lowercase,
    },
    Smuggled {
        id: "N3h",
        does: "ends its own name like an allowed one",
        name: "evilallowed.test",
        read_as: |name| name.strip_prefix("evil").unwrap_or(name).to_owned(),
    },
    Smuggled {
        id: "N3i",
        does: "ends its own name like a wildcard's domain",
        name: "evilbelow.test",
        // Compares the end and forgets the dot.
        read_as: |name| name.replace("evil", "evil."),
    },
    Smuggled {
        id: "N3j",
        does: "asks for a wildcard's domain itself",
        name: "below.test",
        // Reads a star as "any number of labels, or none".
        read_as: |name| format!("any.{name}"),
    },
    Smuggled {
        id: "N3k",
        does: "begins its own name with an allowed one",
        name: "allowed.test.denied.test",
        read_as: |name| name.split(".denied").next().unwrap_or_default().to_owned(),
    },
    Smuggled {
        id: "N3l",
        does: "writes an allowed name as the user of a denied host",
        name: "allowed.test@denied.test",
        read_as: |name| name.split('@').next().unwrap_or_default().to_owned(),
    },
    Smuggled {
        id: "N3m",
        does: "writes a denied name as the user of an allowed host",
        name: "denied.test@allowed.test",
        read_as: |name| name.split('@').next_back().unwrap_or_default().to_owned(),
    },
    Smuggled {
        id: "N3n",
        does: "escapes a NUL with a percent sign",
        name: "allowed.test%00",
        read_as: |name| name.split('%').next().unwrap_or_default().to_owned(),
    },
    Smuggled {
        id: "N3o",
        does: "hides a denied name before a hash",
        name: "denied.test#.below.test",
        read_as: str::to_owned,
    },
    Smuggled {
        id: "N3p",
        does: "hides a denied name before a backslash",
        name: "denied.test\\.below.test",
        read_as: str::to_owned,
    },
    Smuggled {
        id: "N3q",
        does: "writes an allowed name with a letter from another alphabet",
        name: "allow\u{435}d.test",
        read_as: |name| name.replace('\u{435}', "e"),
    },
    Smuggled {
        id: "N3r",
        does: "ends an allowed name with a space",
        name: "allowed.test ",
        read_as: |name| name.trim_end().to_owned(),
    },
];
