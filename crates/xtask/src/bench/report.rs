//! The figures as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::parsing::Parsing;

#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) parsing: Parsing,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the report is what was asked for")]
pub(crate) fn print(figures: &Figures, json: bool) -> anyhow::Result<()> {
    let table = table(figures)?;
    if json {
        eprintln!("{table}");
        println!("{}", serde_json::to_string_pretty(figures)?);
    } else {
        println!("{table}");
    }
    Ok(())
}

fn table(figures: &Figures) -> Result<String, std::fmt::Error> {
    let parsing = &figures.parsing;
    let mut table = String::new();
    writeln!(
        table,
        "parsing a stream of {} MB, {} lines",
        parsing.corpus_bytes / 1_000_000,
        parsing.corpus_lines
    )?;
    writeln!(table, "  {:<36} {:>9} {:>10} {:>12}", "", "seconds", "MB/s", "events/s")?;
    for way in &parsing.ways {
        writeln!(
            table,
            "  {:<36} {:>9.3} {:>10.0} {:>12.0}",
            way.name, way.seconds, way.megabytes_per_second, way.events_per_second
        )?;
    }
    for (name, ratio, promise) in [
        ("caretaker parse --summary : jq -c .", parsing.ratio_to_jq, 5.0),
        ("agent-stream : serde_json::Value loop", parsing.ratio_to_value_loop, 1.8),
    ] {
        writeln!(table, "  {name:<38} {ratio:>5.1}×  (promised: at least {promise}×)")?;
    }
    writeln!(
        table,
        "  peak memory of parse --summary: {} KiB; on an eighth of the stream: {} KiB",
        parsing.peak_memory_kib, parsing.peak_memory_kib_at_an_eighth
    )?;
    Ok(table)
}
