//! `caretaker sandbox net-log`: lists a run's attempts to use the network.

use std::io::{self, BufWriter, Write};

use admission::command_error::CommandError;
use admission::words::talk::note;
use public_events::EventWriter;
use run_journal::{JournalEntry, Position};
use run_protocol::{ExitCode, NetworkMode, RunEvent};

use crate::command_helper::CommandHelper;
use crate::running::following::{open_journal, read_to_end};
use crate::view::fact_rows::moment;
use crate::view::run::network_words;
use crate::view::styled_line::{DIM, GOOD, ODD, PLAIN, write_line};
use crate::view::width::Width;

/// List a run's attempts to use the network: which hosts, how, allowed or denied.
///
/// Identical attempts share one line, with a count.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run.
    run: String,
    /// Print one JSON object per event, as `tail --json` does.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let run = host.find_run(&args.run)?;
    let mut reader = open_journal(&run, Position::Start)?;
    let mut log = NetLog {
        out: match args.json {
            true => Box::new(BufWriter::new(io::stdout())),
            false => Box::new(BufWriter::new(anstream::stdout())),
        },
        events: args.json.then(EventWriter::default),
        width: Width::of_stdout(),
        mode: None,
        n_told: 0,
        trouble: Ok(()),
    };
    read_to_end(&mut reader, &mut |entry| log.take(&entry))?;
    let NetLog { mut out, mode, n_told, trouble, .. } = log;
    trouble.and_then(|()| out.flush()).map_err(CommandError::writing)?;
    if n_told == 0 && !args.json {
        note(match mode {
            Some(NetworkMode::Host) => "no log: the run used the host's network",
            Some(NetworkMode::None) => "the run had no network",
            Some(NetworkMode::Allowlist) => "no network activity",
            None => "no log: the run's sandbox never started",
        });
    }
    Ok(ExitCode::Success)
}

struct NetLog {
    out: Box<dyn Write>,
    /// Writes JSON; `None` prints text.
    events: Option<EventWriter>,
    width: Width,
    mode: Option<NetworkMode>,
    n_told: u64,
    trouble: io::Result<()>,
}

impl NetLog {
    fn take(&mut self, entry: &JournalEntry<'_>) {
        let JournalEntry::Run { at, event, .. } = entry else { return };
        if let RunEvent::SandboxReady { network, .. } = event {
            self.mode = *network;
        }
        let is_of_network =
            matches!(event, RunEvent::NetAllowed { .. } | RunEvent::NetDenied { .. });
        if !is_of_network || self.trouble.is_err() {
            return;
        }
        self.n_told += 1;
        self.trouble = match &mut self.events {
            Some(events) => events.write(&mut self.out, entry),
            None => print(&mut self.out, *at, event, self.width),
        };
    }
}

fn print(out: &mut dyn Write, at: u64, event: &RunEvent, width: Width) -> io::Result<()> {
    let begin = |via| format!("{}  {:<8}", moment(at), network_words::via(via));
    match event {
        RunEvent::NetAllowed { host, port, via, count } => {
            let place = network_words::place(host.as_deref(), *port);
            let place = format!("{place}{}", network_words::times(*count));
            write_line(out, &[(DIM, &begin(*via)), (GOOD, "allowed  "), (PLAIN, &place)], width)
        }
        RunEvent::NetDenied { host, port, via, reason, detail, count } => {
            let place = network_words::place(host.as_deref(), *port);
            let place = format!("{place}{}", network_words::times(*count));
            let why = format!(": {}", network_words::refusal(*reason, detail.as_deref()));
            let pieces =
                [(DIM, begin(*via)), (ODD, "denied   ".to_owned()), (PLAIN, place), (DIM, why)];
            let flag = network_words::flag(host.as_deref(), *port, *reason);
            let flag = flag.map_or(String::new(), |flag| format!("  {flag}"));
            let pieces: Vec<_> =
                pieces.iter().map(|(style, text)| (*style, text.as_str())).collect();
            write_line(out, &[pieces.as_slice(), &[(PLAIN, &flag)]].concat(), width)
        }
        _ => Ok(()),
    }
}
