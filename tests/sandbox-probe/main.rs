//! The program that makes a hostile agent's attempts.
//!
//! ```text
//!   sandbox-probe try WORLD ID…     makes the attempts and prints a line of JSON for each
//!   sandbox-probe neighbour HOME    on the host: a process with sockets and shared memory, until its stdin ends
//! ```

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use abuse::{Answer, Attempt, Line, NEIGHBOUR, Neighbour, SMUGGLED, World};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["try", world, ids @ ..] => try_them(Path::new(world), ids),
        [NEIGHBOUR, home] => be_a_neighbour(Path::new(home)),
        _ => Err(io::Error::other("try WORLD ID… | neighbour HOME")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "sandbox-probe: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

/// Makes the attempts with these ids, in the order of the table.
fn try_them(world: &Path, ids: &[&str]) -> io::Result<()> {
    let world = World::read(world)?;
    let all = abuse::attempts().into_iter().chain(abuse::attempts_on_the_way_out());
    for Attempt { id, act, .. } in all {
        if ids.contains(id) {
            print(id, act(&world))?;
        }
    }
    for smuggled in SMUGGLED {
        if ids.contains(&smuggled.id) {
            let answer = match world.is_apart() {
                true => abuse::smuggle(smuggled.name),
                false => Answer::Done("it is in the machine's own network".to_owned()),
            };
            print(smuggled.id, answer)?;
        }
    }
    Ok(())
}

// One unbuffered write per line: if the probe is killed, the results so far must survive.
fn print(id: &str, answer: Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(&Line { id: id.to_owned(), answer })?;
    line.push(b'\n');
    let mut stdout = io::stdout();
    stdout.write_all(&line)?;
    stdout.flush()
}

/// Offers everything that a process of the same user can reach, describes it, and records every client.
fn be_a_neighbour(home: &Path) -> io::Result<()> {
    let pid = std::process::id().cast_signed();
    let socket = PathBuf::from("agent.sock");
    let abstract_name = format!("caretaker-suite-{pid}-{}", home.display());
    let key = 0x0ca7_0000 | (pid & 0xffff);
    let shared = abuse::make_shared_memory(key).map_err(io::Error::from)?;

    let (visits, came) = std::sync::mpsc::channel();
    let tcp = TcpListener::bind(("127.0.0.1", 0))?;
    let tcp_6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).ok();
    let unix = UnixListener::bind(home.join(&socket))?;
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?;
    let neighbour = Neighbour {
        pid,
        port: tcp.local_addr()?.port(),
        port_6: tcp_6.as_ref().and_then(|socket| Some(socket.local_addr().ok()?.port())),
        abstract_name,
        socket,
        shared_memory: key,
    };
    let said = |visits: &std::sync::mpsc::Sender<&'static str>| visits.clone();
    let (a, b, c, d) = (said(&visits), said(&visits), said(&visits), visits);
    std::thread::spawn(move || while tcp.accept().is_ok() && a.send("tcp").is_ok() {});
    std::thread::spawn(move || {
        while tcp_6.as_ref().is_some_and(|s| s.accept().is_ok()) && b.send("tcp6").is_ok() {}
    });
    std::thread::spawn(move || while unix.accept().is_ok() && c.send("unix").is_ok() {});
    std::thread::spawn(move || while hidden.accept().is_ok() && d.send("abstract").is_ok() {});
    let log = home.join("visits");
    std::fs::write(&log, "")?;
    std::thread::spawn(move || {
        for visit in came {
            let file = std::fs::OpenOptions::new().append(true).open(&log);
            file.and_then(|mut file| writeln!(file, "{visit}")).ok();
        }
    });

    let mut stdout = io::stdout();
    writeln!(stdout, "{}", serde_json::to_string(&neighbour)?)?;
    stdout.flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    abuse::remove_shared_memory(shared);
    Ok(())
}
