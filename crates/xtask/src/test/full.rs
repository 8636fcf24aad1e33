//! `cargo xtask test --full`: runs every step, even after a failure, and prints a table of the results.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::timing::Timings;
use super::tools::Tools;
use super::{api, fresh_debian, fuzzing, sdk_stores, timing};
use crate::commands;

/// A test of the suite that reads its number of rounds from the environment.
struct Storm {
    name: &'static str,
    test: &'static str,
    rounds: (&'static str, &'static str),
}

/// The everyday tests play a few rounds of each. These numbers find rare cases.
const STORMS: [Storm; 7] = [
    Storm { name: "random kills", test: "random_kills", rounds: ("KILL_ROUNDS", "300") },
    Storm {
        name: "kills of a session's runs",
        test: "a_kill_at_any_moment_loses_no_conversation",
        rounds: ("RESUME_ROUNDS", "200"),
    },
    Storm {
        name: "a crowd in the queue",
        test: "many_queued_runs_start_by_priority",
        rounds: ("CARETAKER_QUEUE_RUNS", "500"),
    },
    Storm {
        name: "kills of the daemon",
        test: "daemon::life::",
        rounds: ("CARETAKER_DAEMON_KILLS", "100"),
    },
    Storm {
        name: "many runs at once",
        test: "daemon::life::",
        rounds: ("CARETAKER_DAEMON_RUNS", "100"),
    },
    Storm {
        name: "changes on the host",
        test: "no_setting_of_an_agent_survives",
        rounds: ("HOST_CHANGE_ROUNDS", "100"),
    },
    Storm { name: "flipped bits", test: "flipped_bits", rounds: ("FLIP_ROUNDS", "7") },
];

/// The result of each step.
#[derive(Default)]
struct Report<'a> {
    only: Option<&'a str>,
    steps: Vec<(String, Duration, anyhow::Result<()>)>,
}

impl Report<'_> {
    fn step(&mut self, name: &str, work: impl FnOnce() -> anyhow::Result<()>) {
        if self.only.is_some_and(|word| !name.contains(word)) {
            return;
        }
        let start = Instant::now();
        let outcome = work();
        self.steps.push((name.to_owned(), start.elapsed(), outcome));
    }

    #[expect(clippy::print_stdout, reason = "the table is the result of this chore")]
    fn finish(self) -> anyhow::Result<()> {
        println!("\n{:<44} {:>8}  result", "step", "seconds");
        for (name, took, outcome) in &self.steps {
            let result = match outcome {
                Ok(()) => "ok".to_owned(),
                Err(error) => format!("FAILED: {error:#}"),
            };
            println!("{name:<44} {:>8.1}  {result}", took.as_secs_f64());
        }
        let failed = self.steps.iter().filter(|(_, _, outcome)| outcome.is_err()).count();
        println!("\n{} passed, {failed} failed", self.steps.len() - failed);
        match (self.steps.len(), failed) {
            (0, _) => bail!("no step has this name"),
            (_, 0) => Ok(()),
            (all, _) => bail!("{failed} of {all} steps failed"),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the tables are the result of this chore")]
pub(super) fn run(only: Option<&str>) -> anyhow::Result<()> {
    let tools = Tools::install()?;
    super::build_programs()?;
    let mut report = Report { only, ..Report::default() };
    report.step("format, clippy, fuzz targets compile", super::checks);
    let mut timings = Timings::default();
    report.step("all tests", || timing::run_all_tests(&mut timings));
    for Storm { name, test, rounds: (variable, rounds) } in &STORMS {
        report.step(&format!("storm: {name} ({variable}={rounds})"), || {
            let args = ["test", "--locked", "-p", "suite", test, "--", "--nocapture"];
            commands::check(commands::cargo_command(args).env(variable, rounds))
        });
    }
    report.step("projects of Go and Maven", || {
        let args = ["test", "--locked", "-p", "suite", "sandbox::projects", "--", "--ignored"];
        commands::check(&mut commands::cargo_command(args))
    });
    for target in fuzzing::targets()? {
        report.step(&format!("fuzz: {target}"), || fuzzing::fuzz(&tools, &target));
    }
    report.step("the API against its description", || api::probe(&tools));
    report.step("stores of the real SDK", || sdk_stores::read(&tools));
    report.step("demo on a fresh Debian", || fresh_debian::demo(&tools));
    if let Some(table) = timings.table() {
        println!("\n{table}");
    }
    report.finish()
}
