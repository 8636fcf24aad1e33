//! Replaces everything that differs between runs and machines. The replacement has the same width where columns depend
//! on it.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use regex::{Captures, Regex};

use crate::stage::Stage;
use crate::stage::programs::program;

pub(super) struct Normal {
    /// The stage's own paths and names with their replacements, longest first.
    places: Vec<(String, &'static str)>,
    is_live: bool,
    more: Vec<Rule>,
}

type Rule = (Regex, &'static str);

/// Patterns that differ on every stage.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    rules(&[
        // The age of a past item. The number has four digits until 2047.
        (r"\b\d{4} d\b", "#### d"),
        (r"\b\d{5} h(?: \d{1,2} min)?\b", "##### h ## min"),
        (r#"((?:\b|_)pid"?:? ?)\d+"#, "${1}<pid>"),
    ])
});

/// Patterns that differ only if a command really started something.
static LIVE_RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    rules(&[
        (r"\b(?:\d+ ms|\d+\.\d s|\d+ min \d\d s)\b", "<took>"),
        (r#"((?:\b|_)ms": ?)\d{1,12}\b"#, "${1}<ms>"),
        (r#"((?:executionTime|localExecutionTimeMs)": ?)\d+"#, "${1}<ms>"),
        // Columns are as wide as their content.
        (r"(<took>|\bTIME) {2,}", "$1  "),
        (r"(?m)(<took>  .{10}).*…$", "$1<cut>…"),
        // Token counts depend on texts that contain times.
        (r"\b[0-9,]+ tokens in, ", "<n> tokens in, "),
        (r"\b[0-9,]+ from cache\b", "<n> from cache"),
        (r#"("(?:input_tokens|cache_read_tokens|tokens)": ?)\d+"#, "${1}<n>"),
        // The position of a cut depends on the length of the numbers in the line.
        (r"(?m)^(✓ done · <took>) · .*…$", "$1 · <cut>…"),
        (r"call_[A-Za-z0-9]{24}\\nfc_[0-9a-f]{50}", "call_<call>"),
        (r"(-of-this-run-[0-9]{12}-\d+)-[0-9a-z]{4}\b", "${1}-<call>"),
        (r"\b(worktrees/|caretaker/)([a-z]+)-[0-9a-f]{12}\b", "${1}${2}-<end of an id>"),
        (r"(previous login: caretaker login restore )[0-9a-f]{8}\b", "${1}<id>"),
        (r#"("kept": )"[0-9a-f]{8}""#, r#"$1"<id>""#),
        // Properties of this machine. Snapshots of past runs cover the texts that these rules remove.
        (
            r"(?m)^! (?:you are root[:,] |no cgroup (?:holds|enforces the limits of) this run).*\n",
            "",
        ),
        (r"(?m)^(· sandbox `[a-z]+` is up, ).*$", "$1<as this machine can>"),
        (r#""mounts":\d+"#, r#""mounts":<n>"#),
        (
            r#""limits":\{"backend":.*?\}\}(?:,"warnings":\[[^\]]*\])?"#,
            r#""limits":<as this machine can>"#,
        ),
        (r#""warnings": \[\s*"you are root[:,] [^"]*"\s*\]"#, r#""warnings": []"#),
        (r"(?m)^(limits +)memory [0-9.]+ [MGT]iB", "${1}memory <n>"),
        (r#"("memory_bytes": ?)\d+"#, "${1}<n>"),
        (r"(?m)^(limits  .*, )by .*$", "${1}by <what this machine has>"),
        (r#"("backend": )"[^"]*""#, r#"$1"<what this machine has>""#),
        (r#"("cpu_weight": )\d+"#, "${1}<n>"),
        (r#"("(?:journal_)?bytes": ?)\d+"#, "${1}<n>"),
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"\b[0-9a-f]{40}\b", "<sha1>"),
    ])
});

/// Matches text to replace with `#`, digit for digit: the rest of a path that was cut off, and file sizes on this
/// machine's disk.
static CUT_OFF: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(/tmp/st)([A-Za-z0-9]{1,6})…").unwrap());
static CUT_OFF_IN_FRONT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(…)([a-zA-Z0-9]{1,8})/(?:home|state)\b").unwrap());
static ON_DISK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\b)(\d+\.\d) [KM]iB").unwrap());

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b").unwrap()
});
static SHORT_ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{12}\b").unwrap());
static MILLISECONDS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d{13}\b").unwrap());
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(\d{4}-\d\d-\d\d)([ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?").unwrap()
});

fn rules(rules: &[(&str, &'static str)]) -> Vec<Rule> {
    rules.iter().map(|(pattern, with)| (Regex::new(pattern).unwrap(), *with)).collect()
}

impl Normal {
    pub(super) fn of(stage: &Stage) -> Self {
        let text = |path: std::path::PathBuf| path.into_os_string().into_string().unwrap();
        let workspace = text(stage.workspace());
        let physical = cursor_home::WorkspacePath::new(&stage.workspace()).unwrap();
        let by_sha256 = physical.bucket_by(cursor_home::BucketHash::Sha256);
        let mut places = vec![
            (workspace.trim_start_matches('/').replace(['/', '.'], "-"), "<project>"),
            (workspace, "<workspace>"),
            (physical.bucket(), "<bucket>"),
            (by_sha256, "<sha256 bucket>"),
            (text(stage.home()), "<home>"),
            (text(stage.root().join("state")), "<state>"),
            (text(stage.root().join("run")), "<runtime>"),
            (text(stage.root()), "<root>"),
            (text(program("caretaker")), "<caretaker>"),
        ];
        places.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self { places, is_live: false, more: Vec::new() }
    }

    pub(super) fn live(self) -> Self {
        Self { is_live: true, ..self }
    }

    pub(super) fn also(&mut self, pattern: &str, with: &'static str) {
        self.more.extend(rules(&[(pattern, with)]));
    }

    pub(super) fn of_text(&self, text: &str, run_ids: &[String]) -> String {
        let mut text = text.to_owned();
        for (place, name) in &self.places {
            text = in_place(&text, place, name);
        }
        text = numbered_ids(&text, run_ids);
        text = without_now(&text);
        text = hidden(&text, &CUT_OFF);
        text = hidden(&text, &CUT_OFF_IN_FRONT);
        if self.is_live {
            text = hidden(&text, &ON_DISK);
        }
        let live: &[Rule] = if self.is_live { &LIVE_RULES } else { &[] };
        for (rule, with) in RULES.iter().chain(live).chain(&self.more) {
            text = rule.replace_all(&text, *with).into_owned();
        }
        text
    }
}

/// Replaces a text. If spaces follow it to fill a column, the column keeps its width.
fn in_place(text: &str, place: &str, name: &str) -> String {
    let mut pieces = text.split(place);
    let mut replaced = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        replaced.push_str(name);
        let word = piece.find(' ').unwrap_or(piece.len());
        let (rest_of_word, after) = piece.split_at(word);
        replaced.push_str(rest_of_word);
        if after.starts_with("  ") && !rest_of_word.contains('\n') {
            replaced.push_str(&" ".repeat(place.len().saturating_sub(name.len())));
        }
        replaced.push_str(after);
    }
    replaced
}

/// Replaces every letter and digit in the second group of each match with `#`.
fn hidden(text: &str, found: &Regex) -> String {
    let hide = |found: &Captures<'_>| {
        let hidden = found[2].replace(|it: char| it.is_ascii_alphanumeric(), "#");
        let rest = &found[0][found[1].len() + found[2].len()..];
        format!("{}{hidden}{rest}", &found[1])
    };
    found.replace_all(text, hide).into_owned()
}

/// Replaces random ids with numbers, in order of appearance. Staged ids (`…-0000-7000-8000-…`, `…-0000-4000-8000-…`)
/// stay.
fn numbered_ids(text: &str, run_ids: &[String]) -> String {
    let is_staged = |id: &str| id.contains("-0000-7000-8000-") || id.contains("-0000-4000-8000-");
    let mut seen: Vec<String> = Vec::new();
    let mut number = |last_group: &str| {
        let place = seen.iter().position(|it| it == last_group).unwrap_or_else(|| {
            seen.push(last_group.to_owned());
            seen.len() - 1
        });
        place + 1
    };
    let made_up: Vec<&str> = run_ids
        .iter()
        .map(String::as_str)
        .chain(UUID.find_iter(text).map(|it| it.as_str()))
        .filter(|id| !is_staged(id))
        .filter_map(|id| id.rsplit('-').next())
        .collect();
    SHORT_ID
        .replace_all(&with_marked_ids(text, is_staged), |found: &Captures<'_>| {
            match made_up.contains(&&found[0]) {
                true => format!("{:012}", number(&found[0])),
                false => found[0].to_owned(),
            }
        })
        .into_owned()
}

/// The groups before the last one only encode an id's creation time.
fn with_marked_ids(text: &str, is_staged: impl Fn(&str) -> bool) -> String {
    UUID.replace_all(text, |found: &Captures<'_>| {
        let id = &found[0];
        if is_staged(id) { id.to_owned() } else { format!("00000000-id-of-this-run-{}", &id[24..]) }
    })
    .into_owned()
}

/// Replaces current times. Past times are staged, and stay.
fn without_now(text: &str) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let day_ms = 24 * 3600 * 1000;
    let text = MILLISECONDS.replace_all(text, |found: &Captures<'_>| {
        let is_now = found[0].parse::<u128>().unwrap().abs_diff(now_ms) < 2 * day_ms;
        if is_now { "<now in ms  >".to_owned() } else { found[0].to_owned() }
    });
    let today = now_ms / day_ms;
    DATE.replace_all(&text, |found: &Captures<'_>| {
        let is_now = day_number(&found[1]).is_some_and(|day| day.abs_diff(today) <= 2);
        match is_now {
            true => found[0].chars().map(|it| if it.is_ascii_digit() { '#' } else { it }).collect(),
            false => found[0].to_owned(),
        }
    })
    .into_owned()
}

/// Returns the days from 1970 to a date in the Gregorian calendar.
fn day_number(date: &str) -> Option<u128> {
    let mut parts = date.split('-').map(|part| part.parse::<u128>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    // Years begin in March, so that the leap day is the last.
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    days.checked_sub(719_469)
}

#[test]
fn days_are_counted_from_1970() {
    assert_eq!(day_number("1970-01-01"), Some(0));
    assert_eq!(day_number("2000-03-01"), Some(11_017));
    assert_eq!(day_number("2026-11-17"), Some(20_774));
}

#[test]
fn ids_are_numbered_as_they_appear_and_staged_ones_stay() {
    let (run, other) =
        ("01a1ebb4-85bc-745d-8028-b17ec0bdf2db", "378b7626-9fc4-4347-9b0f-ae17f6fc333c");
    let staged = "01740000-0000-7000-8000-00000000a001";
    let text = format!("{other} b17ec0bdf2db {staged} 00000000a001 {run}");
    assert_eq!(
        numbered_ids(&text, &[run.to_owned()]),
        format!(
            "00000000-id-of-this-run-000000000001 000000000002 {staged} 00000000a001 00000000-id-of-this-run-000000000002"
        )
    );
}

#[test]
fn a_column_stays_as_wide_as_it_was() {
    assert_eq!(
        in_place("/tmp/x/home/a  b\n/tmp/x/home c", "/tmp/x/home", "<home>"),
        "<home>/a       b\n<home> c"
    );
}
