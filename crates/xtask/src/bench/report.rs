//! The figures as tables and as JSON.

use std::fmt::Write as _;

use serde_json::Value;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the report is what was asked for")]
pub(crate) fn print(figures: &Value, json: bool) -> anyhow::Result<()> {
    let mut tables = String::new();
    if let Some(parsing) = figures.get("parsing") {
        parsing_table(&mut tables, parsing)?;
    }
    if let Some(runs) = figures.get("runs") {
        runs_table(&mut tables, runs)?;
    }
    if let Some(sessions) = figures.get("sessions") {
        sessions_table(&mut tables, sessions)?;
    }
    if let Some(resume) = figures.get("resume") {
        resume_table(&mut tables, resume)?;
    }
    if json {
        eprintln!("{tables}");
        println!("{}", serde_json::to_string_pretty(figures)?);
    } else {
        println!("{tables}");
    }
    Ok(())
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(f64::NAN)
}

/// A figure beside what users are promised.
fn row(
    table: &mut String,
    name: &str,
    figure: f64,
    unit: &str,
    promise: &str,
) -> Result<(), std::fmt::Error> {
    writeln!(table, "  {name:<52} {figure:>9.2} {unit:<4} (promised: {promise})")
}

fn parsing_table(table: &mut String, parsing: &Value) -> Result<(), std::fmt::Error> {
    writeln!(
        table,
        "parsing a stream of {:.0} MB, {} lines",
        number(parsing, "corpus_bytes") / 1e6,
        parsing["corpus_lines"]
    )?;
    writeln!(table, "  {:<36} {:>9} {:>10} {:>12}", "", "seconds", "MB/s", "events/s")?;
    for way in parsing["ways"].as_array().into_iter().flatten() {
        writeln!(
            table,
            "  {:<36} {:>9.3} {:>10.0} {:>12.0}",
            way["name"].as_str().unwrap_or_default(),
            number(way, "seconds"),
            number(way, "megabytes_per_second"),
            number(way, "events_per_second")
        )?;
    }
    row(
        table,
        "caretaker parse --summary : jq -c .",
        number(parsing, "ratio_to_jq"),
        "×",
        "at least 5×",
    )?;
    row(
        table,
        "agent-stream : serde_json::Value loop",
        number(parsing, "ratio_to_value_loop"),
        "×",
        "at least 1.8×",
    )?;
    writeln!(
        table,
        "  peak memory of parse --summary: {} KiB; on an eighth of the stream: {} KiB\n",
        parsing["peak_memory_kib"], parsing["peak_memory_kib_at_an_eighth"]
    )
}

fn runs_table(table: &mut String, runs: &Value) -> Result<(), std::fmt::Error> {
    let launch = &runs["launch"];
    writeln!(
        table,
        "launch: from exec to the payload's first instruction, median of {}",
        launch["n_launches"]
    )?;
    writeln!(
        table,
        "  caretaker run                     {:>8.2} ms",
        number(launch, "caretaker_ms")
    )?;
    writeln!(table, "  the same bwrap line by itself     {:>8.2} ms", number(launch, "plain_ms"))?;
    row(table, "ratio", number(launch, "ratio"), "×", "at most 1.5×")?;
    let flood = &runs["flood"];
    writeln!(table, "flood: {:.0} MB through a whole run", number(flood, "bytes") / 1e6)?;
    writeln!(table, "  caretaker run                     {:>8.2} s", number(flood, "caretaker_s"))?;
    writeln!(table, "  the same agent | cat > file       {:>8.2} s", number(flood, "cat_s"))?;
    row(table, "ratio", number(flood, "ratio"), "×", "at most 2×")?;
    let tail = &runs["tail"];
    writeln!(table, "tail -f: from the agent's write to the reader, {} events", tail["n_events"])?;
    row(table, "p50", number(tail, "p50_ms"), "ms", "at most 1 ms")?;
    row(table, "p99", number(tail, "p99_ms"), "ms", "at most 10 ms")?;
    writeln!(table, "memory of a shim (PSS)")?;
    for load in runs["memory"].as_array().into_iter().flatten() {
        let name = format!("{} runs at once, mean", load["n_runs"]);
        row(table, &name, number(load, "mean_pss_kib") / 1024.0, "MiB", "at most 4 MiB")?;
    }
    Ok(())
}

fn sessions_table(table: &mut String, sessions: &Value) -> Result<(), std::fmt::Error> {
    writeln!(
        table,
        "conversations: an IDE database of {:.0} MB, a store.db of {:.0} MB, warm",
        number(sessions, "ide_bytes") / 1e6,
        number(sessions, "chat_bytes") / 1e6
    )?;
    for figure in sessions["figures"].as_array().into_iter().flatten() {
        let name = figure["name"].as_str().unwrap_or_default();
        let promise = format!("at most {} s", figure["promised_seconds"]);
        row(table, name, number(figure, "seconds"), "s", &promise)?;
        let sql = match figure["sql_seconds"].as_f64() {
            Some(sql) => format!("; bare SQL over the same file: {sql:.3} s"),
            None => String::new(),
        };
        let peak = number(figure, "peak_memory_kib") / 1024.0;
        writeln!(table, "    peak memory {peak:.0} MiB (promised: at most 95 MiB){sql}")?;
    }
    Ok(())
}

fn resume_table(table: &mut String, resume: &Value) -> Result<(), std::fmt::Error> {
    writeln!(
        table,
        "sessions: a store.db of {:.0} MB, {} blobs, {} messages in the prompt, warm",
        number(resume, "store_bytes") / 1e6,
        resume["n_blobs"],
        resume["n_messages"]
    )?;
    for figure in resume["figures"].as_array().into_iter().flatten() {
        let name = figure["name"].as_str().unwrap_or_default();
        let seconds = number(figure, "seconds");
        match figure["promised_seconds"].as_f64() {
            Some(promised) => row(table, name, seconds, "s", &format!("at most {promised} s"))?,
            None => writeln!(table, "  {name:<52} {seconds:>9.2} s")?,
        }
        let peak = number(figure, "peak_memory_kib") / 1024.0;
        let promise = match figure["promised_memory_mib"].as_u64() {
            Some(promised) => format!(" (promised: at most {promised} MiB)"),
            None => String::new(),
        };
        let peer = figure["peer"].as_str().unwrap_or_default();
        let peer_seconds = number(figure, "peer_seconds");
        writeln!(table, "    peak memory {peak:.0} MiB{promise}; {peer}: {peer_seconds:.3} s")?;
    }
    writeln!(
        table,
        "  the fork carries {:.0} MB and leaves {:.0} MB behind",
        number(resume, "fork_carried_bytes") / 1e6,
        number(resume, "fork_saved_bytes") / 1e6
    )
}
