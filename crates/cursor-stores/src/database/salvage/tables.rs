//! The tables that Cursor writes, and how to recognise the table of a row.

use crate::database::record_format::Value;

/// A table of one of Cursor's databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    Blobs,
    Meta,
    DiskKv,
    Items,
    ComposerHeaders,
    Agents,
    Runs,
    RunEvents,
}

/// The facts about a row that are known before it is read: its column types, and the text of its first column.
pub(super) struct Shape<'a> {
    pub(super) kinds: &'a [u64],
    pub(super) first: &'a [u8],
}

/// The families of keys in `cursorDiskKV`. Keys of `ItemTable` begin differently.
const DISK_KV_FAMILIES: [&str; 12] = [
    "composerData:",
    "bubbleId:",
    "checkpointId:",
    "codeBlockDiff:",
    "messageRequestContext:",
    "agentKv:",
    "codeBlockPartialInlineDiffFates:",
    "inlineDiff:",
    "inlineDiffs-",
    "composerVirtualRowHeights:",
    "ofsContent:",
    "composer.content.",
];

impl Table {
    pub(super) const ALL: [Self; 8] = [
        Self::Blobs,
        Self::Meta,
        Self::DiskKv,
        Self::Items,
        Self::ComposerHeaders,
        Self::Agents,
        Self::Runs,
        Self::RunEvents,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blobs => "blobs",
            Self::Meta => "meta",
            Self::DiskKv => "cursorDiskKV",
            Self::Items => "ItemTable",
            Self::ComposerHeaders => "composerHeaders",
            Self::Agents => "agents",
            Self::Runs => "runs",
            Self::RunEvents => "run_events",
        }
    }

    /// The columns of its indexes: a text, or a text and a number. The first index identifies a row.
    pub(super) fn indexes(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Blobs => &[&["id"]],
            Self::Meta | Self::DiskKv | Self::Items => &[&["key"]],
            Self::ComposerHeaders => &[&["composerId"]],
            Self::Agents => &[&["agent_id"]],
            Self::Runs => &[&["run_id"], &["agent_id", "turn_number"]],
            Self::RunEvents => &[&["run_id", "seq"]],
        }
    }

    /// The columns that identify a row.
    pub(super) fn key(self) -> &'static [&'static str] {
        self.indexes()[0]
    }

    /// Returns the usual column names for a table with this many columns, if the schema is lost.
    pub(crate) fn usual_columns(self, n_columns: usize) -> Vec<&'static str> {
        let columns: &[&str] = match self {
            Self::Blobs => &["id", "data"],
            Self::Meta | Self::DiskKv | Self::Items => &["key", "value"],
            Self::ComposerHeaders => &[
                "composerId",
                "workspaceId",
                "createdAt",
                "lastUpdatedAt",
                "isArchived",
                "isSubagent",
                "recency",
                "checkpointAt",
                "value",
                "subagentTypeName",
            ],
            Self::Agents => &[
                "agent_id",
                "workspace_ref",
                "status",
                "active_run_id",
                "latest_checkpoint_ref_json",
                "name",
                "metadata_json",
                "created_at",
                "updated_at",
            ],
            Self::Runs => &[
                "run_id",
                "request_id",
                "agent_id",
                "turn_number",
                "status",
                "model",
                "model_params_json",
                "start_checkpoint_ref_json",
                "latest_checkpoint_ref_json",
                "error_code",
                "usage_ref",
                "usage_json",
                "result",
                "created_at",
                "updated_at",
                "started_at",
                "finished_at",
                "cancelled_at",
                "expired_at",
            ],
            Self::RunEvents => &[
                "run_id",
                "seq",
                "offset",
                "event_type",
                "payload_json",
                "payload_ref",
                "idempotency_key",
                "created_at",
            ],
        };
        // Newer versions of this table added columns in the middle.
        let later: &[&str] = match (self, n_columns) {
            (Self::Runs, ..=16) => &["request_id", "usage_json", "result"],
            (Self::Runs, 17 | 18) => &["usage_json"],
            _ => &[],
        };
        columns.iter().copied().filter(|column| !later.contains(column)).collect()
    }

    /// Recognises the table of a row by its shape.
    pub(super) fn of(row: &Shape<'_>) -> Option<Self> {
        let is_text = |kind: &u64| *kind >= 13 && kind % 2 == 1;
        let is_number = |kind: &u64| matches!(kind, 1..=9);
        let is_value = |kind: &u64| *kind == 0 || *kind >= 12;
        let first = row.first;
        match row.kinds {
            [key, value] if is_text(key) && is_value(value) => Self::of_key(first),
            [run, seq, offset, kind, payload @ .., created]
                if payload.len() == 3
                    && [run, offset, kind, created].into_iter().all(is_text)
                    && is_number(seq)
                    && payload.iter().all(is_value) =>
            {
                Some(Self::RunEvents)
            }
            [id, place, status, rest @ ..]
                if rest.len() == 6
                    && [id, place, status].into_iter().all(is_text)
                    && rest.iter().all(is_value) =>
            {
                Some(Self::Agents)
            }
            [id, workspace, numbers @ .., value]
                if numbers.len() == 6
                    && is_text(id)
                    && is_value(workspace)
                    && is_value(value)
                    && numbers.iter().all(|kind| *kind == 0 || is_number(kind)) =>
            {
                Some(Self::ComposerHeaders)
            }
            [id, workspace, a, b, c, d, e, f, value, kind]
                if is_text(id)
                    && is_value(workspace)
                    && [a, b, c, d, e, f].into_iter().all(|kind| *kind == 0 || is_number(kind))
                    && is_value(value)
                    && is_value(kind) =>
            {
                Some(Self::ComposerHeaders)
            }
            [id, rest @ ..]
                if (14..=24).contains(&rest.len())
                    && is_text(id)
                    && rest.iter().filter(|kind| is_number(kind)).count() == 1
                    && rest.iter().all(|kind| is_number(kind) || is_value(kind)) =>
            {
                Some(Self::Runs)
            }
            _ => None,
        }
    }

    /// Returns the table whose keys look like this one.
    fn of_key(key: &[u8]) -> Option<Self> {
        let is_hex = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        if key.len() == 64 && key.iter().filter(|byte| is_hex(byte)).count() > 60 {
            // Even a damaged id looks like nothing else.
            Some(Self::Blobs)
        } else if (1..=2).contains(&key.len()) && key.iter().all(u8::is_ascii_digit) {
            Some(Self::Meta)
        } else if DISK_KV_FAMILIES.iter().any(|family| key.starts_with(family.as_bytes())) {
            Some(Self::DiskKv)
        } else {
            let is_plain = |byte: &u8| *byte >= b' ' || *byte == b'\n';
            (key.len() >= 4 && key.iter().all(is_plain)).then_some(Self::Items)
        }
    }
}

/// Reads the columns of a table from its row in the schema.
pub(super) fn columns_of_schema(row: &[Value<'_>]) -> Option<(Table, Vec<String>)> {
    let [Value::Text(b"table"), Value::Text(name), _, _, Value::Text(sql)] = row else {
        return None;
    };
    let table = Table::ALL.into_iter().find(|table| table.name().as_bytes() == *name)?;
    let columns = known_names(table, column_names(&String::from_utf8_lossy(sql))?);
    let is_whole = |name: &String| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.is_empty()
    };
    let has_key = table.key().iter().all(|key| columns.iter().any(|column| column == key));
    (has_key && columns.iter().all(is_whole)).then_some((table, columns))
}

/// Repairs names with a single wrong letter, if they are otherwise missing.
fn known_names(table: Table, mut names: Vec<String>) -> Vec<String> {
    let usual = table.usual_columns(usize::MAX);
    let is_near = |one: &str, other: &str| {
        let n_wrong = one.bytes().zip(other.bytes()).filter(|(one, other)| one != other).count();
        one.len() == other.len() && n_wrong == 1
    };
    for place in 0..names.len() {
        let is_missing = |column: &&&str| !names.iter().any(|name| name == **column);
        let right = usual
            .iter()
            .filter(|_| !usual.contains(&names[place].as_str()))
            .filter(is_missing)
            .find(|column| is_near(&names[place], column));
        if let Some(right) = right {
            names[place] = (*right).to_owned();
        }
    }
    names
}

/// Returns the column names in `CREATE TABLE name (…)`.
fn column_names(sql: &str) -> Option<Vec<String>> {
    let (_, definitions) = sql.split_once('(')?;
    let mut depth = 0_usize;
    let parts = definitions.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    const CONSTRAINTS: [&str; 5] = ["primary", "unique", "check", "foreign", "constraint"];
    let names = parts.filter_map(|part| {
        let name = part.split_whitespace().next()?.trim_end_matches(')');
        let name = name.trim_matches(['"', '`', '[', ']']);
        let word = name.split('(').next().unwrap_or_default().to_ascii_lowercase();
        (!CONSTRAINTS.contains(&word.as_str())).then(|| name.to_owned())
    });
    Some(names.collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn column_names_are_read_from_the_schema() {
        let sql = "CREATE TABLE runs (run_id TEXT PRIMARY KEY, \"request_id\" TEXT,\n  agent_id TEXT NOT NULL \
                   REFERENCES agents(agent_id), turn_number INTEGER, UNIQUE(agent_id, turn_number), usage_json TEXT)";
        let row = |sql: &'static str| {
            let row = [
                Value::Text(b"table"),
                Value::Text(b"runs"),
                Value::Text(b"runs"),
                Value::Integer(2),
                Value::Text(sql.as_bytes()),
            ];
            columns_of_schema(&row)
        };
        let names = ["run_id", "request_id", "agent_id", "turn_number", "usage_json"];
        assert_eq!(row(sql), Some((Table::Runs, names.map(str::to_owned).to_vec())));
        let salvaged = row("CREATE TABLE runs (ru\u{1}_id TEXT, agent_id TEXT, `later` TEXT)");
        let names = ["run_id", "agent_id", "later"];
        assert_eq!(salvaged, Some((Table::Runs, names.map(str::to_owned).to_vec())));
        assert_eq!(row("CREATE TABLE runs (ru\u{1}_i~ TEXT, agent_id TEXT)"), None);
        assert_eq!(row("CREATE TABLE runs"), None);
    }

    #[test]
    fn a_key_tells_which_table_it_belongs_to() {
        let of = |key: &str| {
            Table::of(&Shape { kinds: &[13 + 2 * key.len() as u64, 12], first: key.as_bytes() })
        };
        assert_eq!(of(&"0af9".repeat(16)), Some(Table::Blobs));
        assert_eq!(of(&format!("~{}", &"0af9".repeat(16)[1..])), Some(Table::Blobs));
        assert_eq!(of("0"), Some(Table::Meta));
        assert_eq!(of("bubbleId:task-call_1\nfc_2:b"), Some(Table::DiskKv));
        assert_eq!(of("composer.composerData"), Some(Table::Items));
        assert_eq!(of("cursorAuth/accessToken"), Some(Table::Items));
        assert_eq!(of("\u{1}\u{2}\u{3}\u{4}"), None);
    }

    #[test]
    fn every_version_of_the_runs_table_has_known_columns() {
        for n_columns in [16, 18, 19] {
            assert_eq!(Table::Runs.usual_columns(n_columns).len(), n_columns);
        }
    }
}
