//! What the bench runs as an agent: it says at what moment it ran, and does little else.

use std::io::{Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the payload of the memory bench lives if nobody lets it end.
const LONGEST_LIFE: Duration = Duration::from_secs(300);
/// Between two looks whether it may end.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// Between two events of the latency bench: long enough that each is a batch of its own.
const BETWEEN_EVENTS: Duration = Duration::from_millis(5);

/// Plays an agent, if the arguments are an agent's.
pub(crate) fn play_if_called_as_agent() -> Option<anyhow::Result<()>> {
    // The very first thing: this is the moment that the launch bench asks for.
    let now = nanoseconds();
    let mut arguments = std::env::args().skip(1);
    match arguments.next()?.as_str() {
        "--version" => {
            writeln!(std::io::stdout(), "2026.10.01-bench00").ok();
            Some(Ok(()))
        }
        "--print" => {
            let session =
                arguments.skip_while(|word| word != "--resume").nth(1).unwrap_or_default();
            Some(play(now, &session))
        }
        _ => None,
    }
}

fn nanoseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn play(began: u128, session: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        r#"{{"type":"system","subtype":"init","session_id":"{session}","began_ns":{began}}}"#
    )?;
    out.flush()?;
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt)?;
    match prompt.trim().split_once(' ') {
        Some(("events", count)) => {
            for _ in 0..count.parse::<u32>()? {
                std::thread::sleep(BETWEEN_EVENTS);
                let line = format!(
                    "{{\"type\":\"thinking\",\"subtype\":\"delta\",\"text\":\"x\",\"sent_ns\":{}}}\n",
                    nanoseconds()
                );
                out.write_all(line.as_bytes())?;
                out.flush()?;
            }
        }
        _ if prompt.trim() == "live" => {
            let began = std::time::Instant::now();
            while !std::path::Path::new("go").exists() && began.elapsed() < LONGEST_LIFE {
                std::thread::sleep(BETWEEN_LOOKS);
            }
        }
        _ => {}
    }
    writeln!(
        out,
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"{session}"}}"#
    )?;
    Ok(())
}
