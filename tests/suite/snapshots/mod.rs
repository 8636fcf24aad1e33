//! The whole output of every command, as users see it: snapshots in `snaps`.
//!
//! A test sets up a stage, and [`Shown`] runs commands on it: on terminals with 100 and 60 columns, and with `--json`
//! into a pipe. Past runs and stores have fixed ids and times, so that little needs normalising and columns stay
//! aligned.

mod acting;
mod changing_sessions;
mod daemon;
mod help;
mod logins;
mod machine;
mod normal;
mod past;
mod reading_runs;
mod reading_sessions;
mod reading_state;
mod servers;
mod stores;
mod taking_back;
mod terminal;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output, Stdio};

use normal::Normal;
use terminal::output_on_terminal;

use crate::stage::Stage;

/// Runs commands on a stage and compares their output with the snapshots.
pub(crate) struct Shown<'a> {
    stage: &'a Stage,
    normal: Normal,
    /// The snapshots that differ. A test reports all of them at its end, so that one test run shows every snapshot that
    /// a change affects.
    different: RefCell<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Form {
    Terminal {
        columns: u16,
    },
    /// Caretaker cuts no text to fit.
    Pipe,
    Json,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(stage: &'a Stage) -> Self {
        Self { stage, normal: Normal::of(stage), different: RefCell::default() }
    }

    /// For commands that start something: also normalises durations and the machine's confinement of a run.
    pub(crate) fn live(stage: &'a Stage) -> Self {
        let mut shown = Self::of(stage);
        shown.normal = Normal::of(stage).live();
        shown
    }

    /// Replaces one more pattern, for a single command.
    pub(crate) fn also(mut self, pattern: &str, with: &'static str) -> Self {
        self.normal.also(pattern, with);
        self
    }

    /// Runs a read-only command that has `--json`: on both terminals and as JSON.
    pub(crate) fn command(&self, name: &str, args: &[&str]) {
        self.human(name, args);
        self.json(name, args);
    }

    /// Runs a read-only command on terminals with 100 and 60 columns.
    pub(crate) fn human(&self, name: &str, args: &[&str]) {
        self.show(&format!("{name}.100"), args, Form::Terminal { columns: 100 });
        self.show(&format!("{name}.60"), args, Form::Terminal { columns: 60 });
    }

    /// Runs a command with `--json` after its arguments, into a pipe.
    pub(crate) fn json(&self, name: &str, args: &[&str]) {
        self.show(&format!("{name}.json"), &[args, &["--json"]].concat(), Form::Json);
    }

    /// Runs a command into a pipe, for output that a terminal would cut inside one of this machine's paths.
    pub(crate) fn piped(&self, name: &str, args: &[&str]) {
        self.show(&format!("{name}.pipe"), args, Form::Pipe);
    }

    /// Runs a command that changes something on both terminals and as JSON, each time on a new stage.
    pub(crate) fn on_fresh_stages(&self, name: &str, args: &[&str], stage: impl Fn() -> Stage) {
        for (form, of_form) in [
            ("100", Form::Terminal { columns: 100 }),
            ("60", Form::Terminal { columns: 60 }),
            ("json", Form::Json),
        ] {
            let stage = stage();
            let shown = Shown::live(&stage);
            let flags: &[&str] = if matches!(of_form, Form::Json) { &["--json"] } else { &[] };
            shown.show(&format!("{name}.{form}"), &[args, flags].concat(), of_form);
            self.different.borrow_mut().append(&mut shown.different.borrow_mut());
        }
    }

    /// Runs a command that can run only once on its stage, or that prints the same on every terminal, such as an error.
    pub(crate) fn once(&self, name: &str, args: &[&str]) {
        self.show(name, args, Form::Terminal { columns: 100 });
    }

    fn show(&self, name: &str, args: &[&str], form: Form) {
        let output = output_in(self.stage.caretaker(args), form);
        self.text(name, &self.page(args, &output, form));
    }

    /// Compares a text from elsewhere, such as a file that a command wrote.
    pub(crate) fn text(&self, name: &str, text: &str) {
        let text = self.normal.of_text(text, &self.stage.run_ids());
        let (directory, name) = name.split_once('/').expect("a name is `command/case`");
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(format!("snaps/{directory}"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let compare = || settings.bind(|| insta::assert_snapshot!(name, text));
        if catch_unwind(AssertUnwindSafe(compare)).is_err() {
            self.different.borrow_mut().push(format!("{directory}/{name}"));
        }
    }

    fn page(&self, args: &[&str], output: &Output, form: Form) -> String {
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stdout = match form {
            Form::Json if stdout.lines().count() == 1 => spread(&stdout),
            _ => stdout.into_owned(),
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        let mut page = format!("$ caretaker {}\n{stdout}", typed(args));
        end_line(&mut page);
        if !stderr.is_empty() {
            page.push_str(&format!("[stderr]\n{stderr}"));
            end_line(&mut page);
        }
        match output.status.code() {
            Some(code) => page.push_str(&format!("[exit {code}]")),
            None => page.push_str(&format!("[{}]", output.status)),
        }
        page
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        let different = self.different.take();
        if !different.is_empty() && !std::thread::panicking() {
            panic!("these snapshots differ: {}", different.join(", "));
        }
    }
}

fn output_in(mut command: Command, form: Form) -> Output {
    command.env("TZ", "UTC").env("LANG", "C.UTF-8").env("NO_COLOR", "1").stderr(Stdio::piped());
    match form {
        Form::Terminal { columns } => output_on_terminal(command, columns),
        Form::Pipe | Form::Json => command.output().unwrap(),
    }
}

/// Returns the arguments as a user would type them.
fn typed(args: &[&str]) -> String {
    let quoted = |arg: &&str| match arg.contains([' ', '\n', '|', '*', '$']) || arg.is_empty() {
        true => format!("'{arg}'"),
        false => (*arg).to_owned(),
    };
    args.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn end_line(page: &mut String) {
    if !page.ends_with('\n') {
        page.push_str("[no end of line]\n");
    }
}

/// Spreads a JSON value over several lines for people. Adds only white space, and keeps the order of keys.
fn spread(json: &str) -> String {
    let (mut spread, mut depth, mut in_string, mut is_escaped) = (String::new(), 0, false, false);
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            spread.push(character);
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '{' | '[' if matches!(characters.peek(), Some('}' | ']')) => spread.push(character),
            '}' | ']' if spread.ends_with(['{', '[']) => spread.push(character),
            '{' | '[' => {
                depth += 1;
                spread.push_str(&format!("{character}\n{}", "  ".repeat(depth)));
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                spread.push_str(&format!("\n{}{character}", "  ".repeat(depth)));
            }
            ',' => spread.push_str(&format!(",\n{}", "  ".repeat(depth))),
            ':' => spread.push_str(": "),
            '"' => {
                in_string = true;
                spread.push('"');
            }
            other => spread.push(other),
        }
    }
    spread
}

#[test]
fn spreading_json_adds_only_white_space() {
    let json = r#"{"b":[1,{"a":"x, \"{y}\":"}],"c":{},"d":[]}"#;
    assert_eq!(
        spread(json),
        "{\n  \"b\": [\n    1,\n    {\n      \"a\": \"x, \\\"{y}\\\":\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}"
    );
}
