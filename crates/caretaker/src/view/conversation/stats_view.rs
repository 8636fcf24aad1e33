//! Prints the counts of conversations.

use std::io::{self, Write};

use admission::words::safe_text::on_one_line;
use admission::words::units::{counted, duration, grouped};
use anstyle::Style;
use cursor_stores::model::display_model;
use jiff::ToSpan;
use jiff::civil::Date;

use crate::conversations::conversation_stats::{
    ConversationStats, Counts, KnownTime, KnownTokens, ToolCounts,
};
use crate::view::chart::{bar, sparkline};
use crate::view::styled_line::{BOLD, DIM, PLAIN, write_line};
use crate::view::width::{Width, columns, fitted};

/// The width of the column of names, in the lines above the charts.
const NAMES: usize = 15;
/// The longest name and the longest bar in a chart row.
const ROW_NAME: usize = 44;
const LONGEST_BAR: usize = 30;
const SHORTEST_BAR: usize = 6;
/// A chart shows at most this many rows.
const MOST_ROWS: usize = 15;
/// How many days the sparkline covers, and how many get their own row.
const DAYS_IN_LINE: usize = 60;
const DAYS_IN_ROWS: usize = 14;

/// One row of a chart.
struct Row {
    name: String,
    value: u64,
    words: String,
}

pub(crate) fn print(
    out: &mut dyn Write,
    stats: &ConversationStats,
    today: Date,
    width: Width,
) -> io::Result<()> {
    let mut page = Page { out, width };
    page.fact("conversations", &grouped(stats.conversations))?;
    if stats.conversations == 0 {
        return Ok(());
    }
    let messages = stats.messages;
    page.fact(
        "messages",
        &format!(
            "{}: {}, {}, {}",
            grouped(messages.total()),
            counted(messages.prompts, "prompt", "prompts"),
            counted(messages.answers, "answer", "answers"),
            counted(messages.others, "other", "others"),
        ),
    )?;
    page.fact("tool calls", &outcomes(stats.tool_calls()))?;
    page.fact("tokens", &tokens(stats.tokens, stats.conversations))?;
    page.fact("days", &days(stats))?;
    page.fact("active time", &active(stats.active, stats.conversations))?;
    page.chart("tools", tool_rows(stats))?;
    page.chart("models", model_rows(stats))?;
    page.chart("workspaces", workspace_rows(stats))?;
    page.day_chart(stats, today)
}

/// `12: 9 succeeded, 3 failed`.
fn outcomes(counts: ToolCounts) -> String {
    let known = counts.by_outcome().into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> =
        known.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
    match words.as_slice() {
        [] => "none".to_owned(),
        words => format!("{}: {}", grouped(counts.total()), words.join(", ")),
    }
}

fn tokens(tokens: KnownTokens, n_conversations: u64) -> String {
    let Some(sum) = tokens.sum else { return "unknown".to_owned() };
    let part = |count: Option<u64>, what: &str| {
        format!("{} {what}", count.map_or_else(|| "unknown".to_owned(), grouped))
    };
    let words = [
        part(sum.input, "in"),
        part(sum.output, "out"),
        part(sum.cache_read, "from cache"),
        part(sum.cache_write, "to cache"),
    ];
    format!("{} ({})", words.join(", "), known_for(tokens.known_conversations, n_conversations))
}

fn active(time: KnownTime, n_conversations: u64) -> String {
    match time.ms {
        Some(ms) => {
            format!("{} ({})", duration(ms), known_for(time.known_conversations, n_conversations))
        }
        None => "unknown".to_owned(),
    }
}

fn known_for(n_known: u64, n_all: u64) -> String {
    if n_known == n_all {
        return "known for all".to_owned();
    }
    format!("known for {} of {} conversations", grouped(n_known), grouped(n_all))
}

fn days(stats: &ConversationStats) -> String {
    match (stats.days.first_key_value(), stats.days.last_key_value()) {
        (Some((first, _)), Some((last, _))) if first == last => format!("{first}"),
        (Some((first, _)), Some((last, _))) => {
            format!("{} with messages, from {first} to {last}", grouped(stats.days.len() as u64))
        }
        _ => "unknown".to_owned(),
    }
}

fn tool_rows(stats: &ConversationStats) -> Vec<Row> {
    let rows = stats.tools.iter().map(|(tool, counts)| Row {
        name: if tool.is_empty() { "(unnamed)".to_owned() } else { tool.clone() },
        value: counts.total(),
        words: outcomes(*counts),
    });
    rows.collect()
}

fn model_rows(stats: &ConversationStats) -> Vec<Row> {
    let rows = stats.models.iter().map(|(model, counts)| {
        let mut words = counted(counts.conversations, "conversation", "conversations");
        if counts.messages > 0 {
            words.push_str(&format!(", {}", counted(counts.messages, "message", "messages")));
        }
        Row { name: model_name(stats, model), value: counts.conversations, words }
    });
    rows.collect()
}

/// The name of a model, with its id if another id has the same name.
fn model_name(stats: &ConversationStats, id: &str) -> String {
    let name = display_model(id);
    let has_twin = stats.models.keys().any(|other| other != id && display_model(other) == name);
    if has_twin { format!("{name} ({id})") } else { name }
}

fn workspace_rows(stats: &ConversationStats) -> Vec<Row> {
    let rows = stats.workspaces.iter().map(|(workspace, counts)| Row {
        name: workspace.clone(),
        value: counts.messages,
        words: counts_in_words(counts),
    });
    rows.collect()
}

fn counts_in_words(counts: &Counts) -> String {
    [
        counted(counts.messages, "message", "messages"),
        counted(counts.tool_calls, "tool call", "tool calls"),
        counted(counts.conversations, "conversation", "conversations"),
    ]
    .join(", ")
}

struct Page<'a> {
    out: &'a mut dyn Write,
    width: Width,
}

impl Page<'_> {
    fn fact(&mut self, name: &str, text: &str) -> io::Result<()> {
        let name = format!("{name:<NAMES$}");
        // Do not cut it: a long fact continues on the terminal's next line.
        write_line(self.out, &[(DIM, &name), (PLAIN, text)], Width::Unlimited)
    }

    fn heading(&mut self, title: &str) -> io::Result<()> {
        writeln!(self.out)?;
        write_line(self.out, &[(BOLD, title)], self.width)
    }

    /// Prints the largest rows first, and counts the others.
    fn chart(&mut self, title: &str, mut rows: Vec<Row>) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        self.heading(title)?;
        rows.sort_by(|one, other| other.value.cmp(&one.value).then(one.name.cmp(&other.name)));
        let n_left = rows.len().saturating_sub(MOST_ROWS);
        rows.truncate(MOST_ROWS);
        self.rows(&rows)?;
        if n_left > 0 {
            let text = format!("  and {} more; `--json` has them all", grouped(n_left as u64));
            write_line(self.out, &[(DIM, &text)], self.width)?;
        }
        Ok(())
    }

    /// Prints names, bars and words in columns. Without a terminal, it prints no bars.
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        let most = rows.iter().map(|row| row.value).max().unwrap_or(0);
        let names: Vec<String> = rows.iter().map(|row| shortened(&row.name, self.width)).collect();
        let name_columns = names.iter().map(|name| columns(name)).max().unwrap_or(0);
        let word_columns = rows.iter().map(|row| columns(&row.words)).max().unwrap_or(0);
        // The space next to the words. If it is too small, print no bar.
        let bar_columns = match self.width {
            Width::Unlimited => 0,
            Width::Columns(width) => width.saturating_sub(name_columns + word_columns + 5),
        };
        let bar_columns = if bar_columns < SHORTEST_BAR { 0 } else { bar_columns.min(LONGEST_BAR) };
        for (row, name) in rows.iter().zip(names) {
            let padding = " ".repeat(name_columns - columns(&name) + 2);
            let drawn = bar(row.value, most, bar_columns);
            let room = match bar_columns {
                0 => String::new(),
                _ => " ".repeat(bar_columns - columns(&drawn) + 1),
            };
            let words = on_one_line(&row.words);
            let pieces: [(Style, &str); 6] = [
                (PLAIN, "  "),
                (PLAIN, &name),
                (PLAIN, &padding),
                (BAR, &drawn),
                (PLAIN, &room),
                (DIM, &words),
            ];
            write_line(self.out, &pieces, self.width)?;
        }
        Ok(())
    }

    fn day_chart(&mut self, stats: &ConversationStats, today: Date) -> io::Result<()> {
        if stats.days.is_empty() {
            return Ok(());
        }
        self.heading("days")?;
        if let Width::Columns(width) = self.width {
            let n_days = DAYS_IN_LINE.min(width.saturating_sub(30)).max(1);
            let first = |n: usize| today.saturating_sub(i64::try_from(n).unwrap_or(0).days());
            let messages_of = |day: Date| stats.days.get(&day).map_or(0, |counts| counts.messages);
            let values: Vec<u64> = (0..n_days).rev().map(|n| messages_of(first(n))).collect();
            if values.iter().any(|value| *value > 0) {
                let line = sparkline(&values);
                let words = format!("  messages, the last {n_days} days");
                write_line(self.out, &[(PLAIN, "  "), (BAR, &line), (DIM, &words)], self.width)?;
            }
        }
        let latest = stats.days.iter().rev().take(DAYS_IN_ROWS);
        let rows: Vec<Row> = latest
            .map(|(day, counts)| Row {
                name: day.strftime("%Y-%m-%d %a").to_string(),
                value: counts.messages,
                words: counts_in_words(counts),
            })
            .collect();
        self.rows(&rows)?;
        let n_left = stats.days.len().saturating_sub(DAYS_IN_ROWS);
        if n_left > 0 {
            let text = format!("  and {} before", counted(n_left as u64, "day", "days"));
            write_line(self.out, &[(DIM, &text)], self.width)?;
        }
        Ok(())
    }
}

const BAR: Style = anstyle::AnsiColor::Cyan.on_default();

/// Shortens a name. The end of a path says most, so this cuts its beginning.
fn shortened(name: &str, width: Width) -> String {
    let name = on_one_line(name);
    let Width::Columns(width) = width else { return name.into_owned() };
    let most = ROW_NAME.min(width / 3).max(8);
    if columns(&name) <= most {
        return name.into_owned();
    }
    if !name.starts_with('/') {
        return fitted(&name, Width::Columns(most));
    }
    let mut end = name.as_ref();
    while columns(end) >= most {
        let mut characters = end.chars();
        characters.next();
        end = characters.as_str();
    }
    format!("…{end}")
}

#[cfg(test)]
#[path = "stats_view_tests.rs"]
mod tests;
