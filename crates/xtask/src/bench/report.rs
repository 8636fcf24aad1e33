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
    if let Some(daemon) = figures.get("daemon") {
        daemon_table(&mut tables, daemon)?;
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
    writeln!(table, "  {:<36} {:>9} {:>10} {:>12}", "", "CPU s", "MB/s", "events/s")?;
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

/// Adds the rows of one part to a table.
type Rows = fn(&mut String, &Value) -> Result<(), std::fmt::Error>;

fn runs_table(table: &mut String, runs: &Value) -> Result<(), std::fmt::Error> {
    // A bench of one part measures only that.
    let parts: [(&str, Rows); 6] = [
        ("launch", launch_rows),
        ("flood", flood_rows),
        ("tail", tail_rows),
        ("undo", undo_rows),
        ("crowds", crowd_rows),
        ("limits", limit_rows),
    ];
    for (name, rows) in parts {
        if let Some(figures) = runs.get(name) {
            rows(table, figures)?;
        }
    }
    Ok(())
}

fn launch_rows(table: &mut String, launch: &Value) -> Result<(), std::fmt::Error> {
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
    let plan_adds = number(launch, "plan_adds_ms");
    row(table, "the whole plan adds to a bare start", plan_adds, "ms", "at most 25 ms")?;
    let allowlist_adds = number(launch, "allowlist_adds_ms");
    row(table, "allowlist adds to the start", allowlist_adds, "ms", "at most 25 ms")
}

fn flood_rows(table: &mut String, flood: &Value) -> Result<(), std::fmt::Error> {
    writeln!(table, "flood: {:.0} MB through a whole run", number(flood, "bytes") / 1e6)?;
    writeln!(table, "  caretaker run                     {:>8.2} s", number(flood, "caretaker_s"))?;
    writeln!(table, "  the same agent | cat > file       {:>8.2} s", number(flood, "cat_s"))?;
    row(table, "ratio", number(flood, "ratio"), "×", "at most 2×")
}

fn tail_rows(table: &mut String, tail: &Value) -> Result<(), std::fmt::Error> {
    writeln!(table, "tail -f: from the agent's write to the reader, {} events", tail["n_events"])?;
    row(table, "p50", number(tail, "p50_ms"), "ms", "at most 1 ms")?;
    row(table, "p99", number(tail, "p99_ms"), "ms", "at most 10 ms")
}

fn undo_rows(table: &mut String, undo: &Value) -> Result<(), std::fmt::Error> {
    writeln!(table, "undo: a workspace of {} files, all of them changed", undo["n_files"])?;
    row(table, "undo", number(undo, "undo_s"), "s", "less than 3 s")?;
    row(table, "undo of the undo", number(undo, "redo_s"), "s", "less than 3 s")?;
    writeln!(table, "  git checkout --force, git clean   {:>8.2} s", number(undo, "git_s"))?;
    writeln!(
        table,
        "  saved before the run: all of it {:.0} ms, with nothing new {:.0} ms",
        number(undo, "first_save_ms"),
        number(undo, "next_save_ms")
    )
}

fn crowd_rows(table: &mut String, crowds: &Value) -> Result<(), std::fmt::Error> {
    for crowd in crowds.as_array().into_iter().flatten() {
        writeln!(table, "{} silent runs at once", crowd["n_runs"])?;
        let mib = |name: &str| number(crowd, name) / 1024.0;
        row(table, "memory of a shim (PSS), mean", mib("mean_pss_kib"), "MiB", "at most 4 MiB")?;
        row(table, "its private part, mean", mib("mean_private_kib"), "MiB", "")?;
        if let Some(percent) = crowd["idle_percent"].as_f64() {
            row(table, "all shims take of one processor", percent, "%", "below 5 % for 500")?;
        }
        row(table, "kill of all", number(crowd, "kill_s"), "s", "")?;
    }
    Ok(())
}

fn limit_rows(table: &mut String, limits: &Value) -> Result<(), std::fmt::Error> {
    writeln!(table, "limits, held by {}", limits["backend"].as_str().unwrap_or("nothing"))?;
    writeln!(table, "  launch with them                  {:>8.2} ms", number(limits, "with_ms"))?;
    writeln!(
        table,
        "  launch with none at all           {:>8.2} ms",
        number(limits, "without_ms")
    )?;
    row(
        table,
        "what they add",
        number(limits, "added_ms"),
        "ms",
        "part of 25 ms for all of the plan",
    )?;
    match &limits["beside_bombs"] {
        Value::Null => {
            writeln!(table, "  no bomb was let go: nothing holds the number of processes here")?
        }
        tail => {
            writeln!(table, "  tail -f of a run beside a fork bomb and a memory bomb")?;
            row(table, "p50", number(tail, "p50_ms"), "ms", "as without")?;
            row(table, "p99", number(tail, "p99_ms"), "ms", "as without")?;
        }
    }
    Ok(())
}

fn daemon_table(table: &mut String, daemon: &Value) -> Result<(), std::fmt::Error> {
    let (idle, queue) = (&daemon["idle"], &daemon["queue"]);
    let (clients, live) = (&daemon["clients"], &daemon["live"]);
    writeln!(table, "the daemon, with nothing to do for {} s", idle["seconds"])?;
    row(table, "wake-ups", number(idle, "wake_ups"), "", "none")?;
    row(table, "memory", number(idle, "rss_kib") / 1024.0, "MiB", "below 20 MiB")?;
    writeln!(table, "its queue, {} runs, 8 at once", queue["n_runs"])?;
    row(
        table,
        "decisions, for each run",
        number(queue, "decision_ms_per_run"),
        "ms",
        "below 5 ms",
    )?;
    row(
        table,
        "its processor time, for each run",
        number(queue, "daemon_cpu_ms_per_run"),
        "ms",
        "",
    )?;
    writeln!(
        table,
        "{} clients that follow one run, {} events each",
        clients["n_clients"], clients["events_each"]
    )?;
    row(table, "processor", number(clients, "cores"), "cores", "below 1")?;
    row(table, "memory", number(clients, "rss_kib") / 1024.0, "MiB", "")?;
    let name = format!("memory with {} live runs", live["n_runs"]);
    row(table, &name, number(live, "rss_kib") / 1024.0, "MiB", "below 60 MiB")
}

fn sessions_table(table: &mut String, sessions: &Value) -> Result<(), std::fmt::Error> {
    writeln!(
        table,
        "conversations: an IDE database of {:.0} MB, a store.db of {:.0} MB, 10,000 chats; warm, the best of all rounds",
        number(sessions, "ide_bytes") / 1e6,
        number(sessions, "chat_bytes") / 1e6
    )?;
    let promised_kib = number(sessions, "promised_memory_kib");
    writeln!(
        table,
        "  {:<46} {:>9} {:>9} {:>9} {:>8} {:>9}  promise",
        "", "seconds", "promised", "CPU s", "MiB", "bare SQL"
    )?;
    let mut n_missed = 0;
    for figure in sessions["figures"].as_array().into_iter().flatten() {
        let peak_kib = number(figure, "peak_memory_kib");
        let promised = figure["promised_seconds"].as_f64();
        let mut misses = Vec::new();
        if promised.is_some_and(|promised| number(figure, "seconds") >= promised) {
            misses.push("time");
        }
        if promised.is_some() && peak_kib >= promised_kib {
            misses.push("memory");
        }
        n_missed += misses.len();
        let verdict = match (promised, misses.as_slice()) {
            (None, _) => "none".to_owned(),
            (Some(_), []) => "met".to_owned(),
            (Some(_), misses) => format!("MISSED: {}", misses.join(", ")),
        };
        writeln!(
            table,
            "  {:<46} {:>9.3} {:>9} {:>9.3} {:>8.0} {:>9}  {verdict}",
            figure["name"].as_str().unwrap_or_default(),
            number(figure, "seconds"),
            promised.map_or_else(String::new, |promised| format!("< {promised}")),
            number(figure, "cpu_seconds"),
            peak_kib / 1024.0,
            figure["sql_seconds"].as_f64().map_or_else(String::new, |sql| format!("{sql:.3}")),
        )?;
    }
    writeln!(table, "  peak memory is promised to be below {:.0} MiB", promised_kib / 1024.0)?;
    writeln!(
        table,
        "sessions tail -f: from the commit of another process to the line that shows it"
    )?;
    for tail in sessions["tails"].as_array().into_iter().flatten() {
        let promised = tail["promised_ms"].as_f64();
        let is_met = promised.is_none_or(|promised| number(tail, "worst_ms") < promised);
        n_missed += usize::from(!is_met);
        writeln!(
            table,
            "  {:<46} median {:>5.0} ms, worst {:>5.0} ms, {:>4.0} MiB  {}",
            tail["name"].as_str().unwrap_or_default(),
            number(tail, "median_ms"),
            number(tail, "worst_ms"),
            number(tail, "peak_memory_kib") / 1024.0,
            match promised {
                None => "no promise".to_owned(),
                Some(promised) if is_met => format!("met: < {promised} ms"),
                Some(promised) => format!("MISSED: < {promised} ms"),
            }
        )?;
    }
    match n_missed {
        0 => writeln!(table, "all promises are met"),
        n => writeln!(table, "{n} promises are missed"),
    }
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
