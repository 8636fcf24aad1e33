//! The benchmark's agent: it prints its start time, and does little else.

use std::io::{Read, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A silent agent lives this long unless the benchmark ends it earlier.
const LONGEST_LIFE: Duration = Duration::from_secs(600);
/// The time between two events of the latency benchmark. It is long enough that each event is its own batch.
const BETWEEN_EVENTS: Duration = Duration::from_millis(5);

/// Plays an agent if this program was called with an agent's arguments.
pub(crate) fn play_if_called_as_agent() -> Option<anyhow::Result<()>> {
    // This comes first, because the launch benchmark measures this time.
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
        // The crowd benchmark ends it.
        _ if prompt.trim() == "silent" => std::thread::sleep(LONGEST_LIFE),
        _ => {}
    }
    writeln!(
        out,
        r#"{{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"{session}"}}"#
    )?;
    Ok(())
}
