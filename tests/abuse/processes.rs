//! P1-P3, P7-P9: other processes, their secrets, and this process's own privileges and limits.

use std::fs;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::attempt::{Answer, Attempt, Evidence};
use crate::calls;
use crate::tries::{NOTHING, called, contains, first_done, name_of, outcome};
use crate::world::NEIGHBOUR;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "P1a",
        does: "looks for the host's processes",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |_| match neighbours().is_empty() {
            true => Answer::refused(NOTHING),
            false => Answer::done("it sees the neighbour"),
        },
    },
    Attempt {
        id: "P1b",
        does: "kills a process of the same user on the host",
        held_by: &["ESRCH"],
        evidence: Evidence::NeighbourLives,
        act: |world| {
            let number = Pid::from_raw(world.neighbour.pid);
            let own = Path::new("/proc").join(number.to_string()).exists();
            let mut targets = neighbours();
            // Inside the sandbox, one of our own processes may have this number.
            if !own {
                targets.push(number);
            }
            let answers =
                targets.into_iter().map(|pid| called(kill(pid, Signal::SIGKILL), "it was killed"));
            match first_done(answers) {
                // "No such process" also means that the neighbour is out of reach.
                Answer::Refused(why) if why == NOTHING => Answer::refused("ESRCH"),
                answer => answer,
            }
        },
    },
    Attempt {
        id: "P2a",
        does: "reads the supervisor's environment from the first process",
        held_by: &[NOTHING, "EACCES", "ENOENT"],
        evidence: Evidence::Inside,
        act: |world| match fs::read("/proc/1/environ") {
            Ok(bytes) => knows(&[bytes], &[&world.secret, &world.key]),
            Err(error) => Answer::refused(name_of(&error)),
        },
    },
    Attempt {
        id: "P2b",
        does: "reads secrets from command lines",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| {
            let lines: Vec<Vec<u8>> = processes()
                .map(|pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
                .collect();
            knows(&lines, &[&world.secret, &world.key])
        },
    },
    Attempt {
        id: "P2c",
        does: "looks for the supervisor's environment in its own",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |world| match fs::read("/proc/self/environ") {
            Ok(bytes) => knows(&[bytes], &[&world.secret]),
            Err(error) => Answer::refused(name_of(&error)),
        },
    },
    Attempt {
        id: "P2d",
        does: "opens the memory of the first process, which no filter restricts, for writing",
        held_by: &["ENOENT", "EACCES", "EROFS"],
        evidence: Evidence::Inside,
        act: |_| {
            let places = ["/proc/1/mem", "/proc/1/task/1/mem", "/proc/self/root/proc/1/mem"];
            let open = |place| fs::OpenOptions::new().read(true).write(true).open(place);
            first_done(places.map(|place| outcome(open(place), "it can be written")))
        },
    },
    Attempt {
        id: "P3a",
        does: "looks for capabilities that it has or could get",
        held_by: &["0000000000000000"],
        evidence: Evidence::Inside,
        act: |_| {
            let fields = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(status_field);
            match fields.iter().find(|field| *field != "0000000000000000") {
                Some(field) => Answer::done(field.clone()),
                None => Answer::refused(fields[0].clone()),
            }
        },
    },
    Attempt {
        id: "P3b",
        does: "checks whether a program could give it privileges",
        held_by: &["NoNewPrivs 1"],
        evidence: Evidence::Inside,
        act: |_| is_field("NoNewPrivs", "1"),
    },
    Attempt {
        id: "P3c",
        does: "checks whether its system calls are filtered",
        held_by: &["Seccomp 2"],
        evidence: Evidence::Inside,
        act: |_| is_field("Seccomp", "2"),
    },
    Attempt {
        id: "P7a",
        does: "renames the host",
        held_by: &["EPERM"],
        evidence: Evidence::NameOfHost,
        act: |_| called(nix::unistd::sethostname("evil"), "it was renamed"),
    },
    Attempt {
        id: "P7b",
        does: "reads the host's name",
        held_by: &["another name"],
        evidence: Evidence::Inside,
        act: |world| match nix::unistd::gethostname() {
            Ok(name) if name == *world.host_name => Answer::done("it was read"),
            _ => Answer::refused("another name"),
        },
    },
    Attempt {
        id: "P8",
        does: "reads shared memory of the same user on the host",
        held_by: &["ENOENT"],
        evidence: Evidence::Inside,
        act: |world| called(calls::shared_memory(world.neighbour.shared_memory), "it was read"),
    },
    Attempt {
        id: "P9a",
        does: "raises its limit on open files",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| raise(Resource::RLIMIT_NOFILE),
    },
    Attempt {
        id: "P9b",
        does: "turns on core dumps, which contain its secrets",
        held_by: &["EPERM"],
        evidence: Evidence::Inside,
        act: |_| raise(Resource::RLIMIT_CORE),
    },
];

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The neighbour's processes.
fn neighbours() -> Vec<Pid> {
    let is_neighbour = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(NEIGHBOUR.as_bytes())
    };
    processes().filter(is_neighbour).map(Pid::from_raw).collect()
}

fn knows(texts: &[Vec<u8>], secrets: &[&String]) -> Answer {
    let is_known = |text: &Vec<u8>| secrets.iter().any(|secret| contains(text, secret));
    match texts.iter().any(is_known) {
        true => Answer::done("it was read"),
        false => Answer::refused(NOTHING),
    }
}

fn status_field(name: &str) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or("unknown").trim().to_owned()
}

fn is_field(name: &str, expected: &str) -> Answer {
    let found = status_field(name);
    let said = format!("{name} {found}");
    if found == expected { Answer::refused(said) } else { Answer::done(said) }
}

fn raise(resource: Resource) -> Answer {
    match getrlimit(resource) {
        Ok((_, most)) if most == nix::libc::RLIM_INFINITY => Answer::done("there is no limit"),
        Ok((_, most)) => called(setrlimit(resource, most + 1, most + 1), "it was raised"),
        Err(errno) => Answer::refused(format!("{errno:?}")),
    }
}
