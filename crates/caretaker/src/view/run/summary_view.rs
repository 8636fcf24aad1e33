//! Prints the summary of an agent's stream.

use std::io::{self, Write};

use admission::words::safe_text::on_one_line;
use admission::words::units;
use agent_stream::{StreamSummary, Usage};
use cursor_stores::model::display_model;

pub(crate) fn print(out: &mut impl Write, summary: &StreamSummary) -> io::Result<()> {
    let row = |out: &mut dyn Write, name: &str, value: &str| {
        let mut lines = value.lines();
        writeln!(out, "{name:<10} {}", lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(out, "{:<10} {line}", ""))
    };
    let named = |value: &Option<String>| match value {
        Some(value) => on_one_line(value).into_owned(),
        None => "unknown".to_owned(),
    };
    row(out, "session", &named(&summary.session))?;
    row(out, "model", &named(&summary.model.as_deref().map(display_model)))?;
    row(out, "directory", &named(&summary.cwd))?;
    row(
        out,
        "stream",
        &format!(
            "{}, {}",
            units::counted(summary.lines, "line", "lines"),
            units::counted(summary.bytes, "byte", "bytes")
        ),
    )?;
    row(out, "tools", &tools(summary))?;
    row(out, "text", &text(summary))?;
    let thinking = units::counted(summary.thinking_length, "byte", "bytes");
    row(out, "thinking", if summary.thinking_length == 0 { "none" } else { &thinking })?;
    row(out, "usage", &summary.usage.as_ref().map_or("not reported".to_owned(), usage))?;
    row(out, "result", &result(summary))?;
    let oddities = oddities(summary);
    row(out, "oddities", if oddities.is_empty() { "none" } else { &oddities[0] })?;
    oddities.iter().skip(1).try_for_each(|oddity| row(out, "", oddity))
}

/// `14,921 tokens in, 806 out, 51,840 from cache`.
pub(crate) fn usage(usage: &Usage) -> String {
    let counts = [
        (usage.input_tokens, "tokens in"),
        (usage.output_tokens, "out"),
        (usage.cache_read_tokens, "from cache"),
        (usage.cache_write_tokens, "to cache"),
    ];
    let known: Vec<String> = counts
        .into_iter()
        .filter_map(|(count, what)| Some(format!("{} {what}", units::grouped(count?))))
        .collect();
    known.join(", ")
}

/// Everything in the stream that looks wrong and that the user should check.
pub(crate) fn oddities(summary: &StreamSummary) -> Vec<String> {
    let mut oddities = Vec::new();
    if !summary.unknown_kinds.is_empty() {
        let kinds: Vec<String> = summary
            .unknown_kinds
            .iter()
            .map(|(kind, count)| format!("{} ×{count}", on_one_line(kind)))
            .collect();
        oddities.push(format!("events of unknown kinds: {}", kinds.join(", ")));
    }
    if summary.malformed_count > 0 {
        let numbers: Vec<String> =
            summary.malformed_lines.iter().take(5).map(|line| line.line.to_string()).collect();
        let more = if summary.malformed_count > numbers.len() as u64 { ", …" } else { "" };
        let count = units::counted(summary.malformed_count, "line is", "lines are");
        oddities.push(format!("{count} not JSON: {}{more}", numbers.join(", ")));
    }
    if summary.oversized_lines > 0 {
        let count = units::counted(summary.oversized_lines, "line was", "lines were");
        oddities.push(format!("{count} too long and cut"));
    }
    if summary.repaired_lines > 0 {
        let count = units::counted(summary.repaired_lines, "line", "lines");
        oddities.push(format!("{count} had bytes or characters that are not valid text"));
    }
    if summary.completed_without_started > 0 {
        let count = units::counted(summary.completed_without_started, "tool call", "tool calls");
        oddities.push(format!("{count} completed without having started"));
    }
    if !summary.open_tools.is_empty() {
        oddities.push(format!("never completed: {}", on_one_line(&summary.open_tools.join(", "))));
    }
    if summary.uncompared_results > 0 {
        let count = units::counted(summary.uncompared_results, "result", "results");
        oddities.push(format!("{count} too long to compare with the text"));
    }
    if let Some(difference) = &summary.text_difference {
        oddities.push(format!(
            "the text ({} bytes) and the agent's result in line {} ({} bytes) differ after {} bytes",
            units::grouped(difference.assembled_length),
            difference.line,
            units::grouped(difference.result_length),
            units::grouped(difference.common_prefix),
        ));
    }
    oddities
}

fn tools(summary: &StreamSummary) -> String {
    if summary.tools.is_empty() {
        return "none".to_owned();
    }
    let rows: Vec<String> = summary
        .tools
        .iter()
        .map(|(name, outcomes)| {
            let outcomes: Vec<String> = outcomes
                .iter()
                .map(|(outcome, count)| format!("{count} {}", on_one_line(outcome)))
                .collect();
            format!("{}: {}", on_one_line(name), outcomes.join(", "))
        })
        .collect();
    rows.join("\n")
}

fn text(summary: &StreamSummary) -> String {
    let length = units::counted(summary.text_length, "byte", "bytes");
    match summary.text_agrees {
        Some(true) if summary.repeated_results > 0 => {
            format!("{length}, equal to the agent's result without its repetitions")
        }
        Some(true) => format!("{length}, equal to the agent's result"),
        Some(false) => format!("{length}, not equal to the agent's result"),
        None => format!("{length}, no result to compare with"),
    }
}

fn result(summary: &StreamSummary) -> String {
    let duration =
        summary.duration_ms.map_or(String::new(), |ms| format!(" after {}", units::duration(ms)));
    match (summary.results, summary.is_error) {
        (0, _) => "none: the turn did not end".to_owned(),
        (_, Some(true)) => format!("error{duration}"),
        (_, Some(false)) => format!("success{duration}"),
        (_, None) => format!("no verdict{duration}"),
    }
}
