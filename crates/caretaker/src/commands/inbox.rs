//! `caretaker inbox`, `answer` and `send`: the user's side of messages to and from agents.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;

use admission::command_error::{CommandError, OrFail};
use admission::host::{Host, short_id};
use admission::words::safe_text::on_one_line;
use admission::words::talk::say;
use admission::words::units;
use caretaker_daemon::{
    Delivery, OpenInboxes, OpenQuestion, PostedMessage, Presence, WaitingMessage, answer_question,
    answer_run, open_inboxes, post_message,
};
use ground::now_ms;
use run_journal::RunDirectory;
use run_protocol::{ExitCode, MessageSender, RunSpec};
use serde::Serialize;
use serde_json::json;

use crate::command_helper::CommandHelper;
use crate::daemon_client::daemon_presence;
use crate::data_out::{print_json, print_view};
use crate::running::prompt::PromptSource;
use crate::surroundings::Audience;
use crate::view::styled_line::{BOLD, DIM};
use crate::view::words;

/// The longest message. A longer text belongs in a file in the workspace.
const MOST_CHARS: usize = 100_000;

/// List agents' open questions, and messages that agents have not received yet.
///
/// An agent asks with its tools `ask_human` and `request_access`. Its run continues, or ends its turn and waits.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker inbox
  caretaker answer q-1a2b3c4d \"the new database\"
  caretaker inbox --json | jq -r '.questions[].question'")]
pub(crate) struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let OpenInboxes { questions, undelivered } = open_inboxes(&host.state)?;
    if args.json {
        return print_json(&json!({ "v": 1, "questions": questions, "undelivered": undelivered }));
    }
    let now = now_ms();
    print_view(|out| {
        questions.iter().try_for_each(|question| print_question(out, question, now))?;
        undelivered.iter().try_for_each(|message| print_message(out, message, now))
    })?;
    if questions.is_empty() && undelivered.is_empty() {
        say("no open questions");
    }
    let ways: BTreeSet<Delivery> = undelivered.iter().map(|message| message.delivery).collect();
    for way in ways {
        say(match way {
            Delivery::CheckInbox => "live: the agent receives it when it calls check_inbox",
            Delivery::NextTurn if has_daemon(host)? => {
                "next turn: the daemon will start a run that begins with it"
            }
            Delivery::NextTurn => {
                "next turn: not delivered, because the daemon is not running\n\
                hint: `caretaker daemon start`; or `caretaker resume` the session, and its agent can call check_inbox"
            }
            Delivery::OnResume => {
                "on resume: the daemon does not wake this session; `caretaker resume` it, and its agent can call check_inbox"
            }
        });
    }
    Ok(ExitCode::Success)
}

fn print_question(
    out: &mut dyn Write,
    question: &OpenQuestion,
    now_ms: u64,
) -> std::io::Result<()> {
    let OpenQuestion { question: id, at_ms, run, name, about, text, options, host, .. } = question;
    let called = name.clone().unwrap_or_else(|| short_id(*run));
    let age = units::age(now_ms.saturating_sub(*at_ms));
    let asks = on_one_line(&words::question(*about, host.as_deref())).into_owned();
    writeln!(
        out,
        "{BOLD}{}{BOLD:#}  {DIM}run {}, {age} ago: {asks}{DIM:#}",
        on_one_line(id),
        on_one_line(&called)
    )?;
    for line in text.lines() {
        writeln!(out, "  {}", on_one_line(line))?;
    }
    options.iter().try_for_each(|option| writeln!(out, "  - {}", on_one_line(option)))
}

fn print_message(
    out: &mut dyn Write,
    message: &WaitingMessage,
    now_ms: u64,
) -> std::io::Result<()> {
    let from = match &message.from {
        MessageSender::Person => "you".to_owned(),
        MessageSender::Agent { run, name, .. } => name.clone().unwrap_or_else(|| short_id(*run)),
        MessageSender::End { .. } => "caretaker".to_owned(),
    };
    let age = units::age(now_ms.saturating_sub(message.at_ms));
    let first = message.text.lines().next().unwrap_or_default();
    let way = match message.delivery {
        Delivery::CheckInbox => "live",
        Delivery::NextTurn => "next turn",
        Delivery::OnResume => "on resume",
    };
    writeln!(
        out,
        "{DIM}undelivered ({way}), {age} ago, from {} to session {}:{DIM:#} {}",
        on_one_line(&from),
        message.session,
        on_one_line(first)
    )
}

/// Answer an agent's question.
///
/// A live agent gets the answer when it calls check_inbox. If its session has no live run, the daemon starts a run
/// that begins with the answer. An answer grants no access: to widen the sandbox, give flags to the next run.
///
/// TO is a question's id, or a run with one open question: its id, a unique prefix or suffix of it, its name, or `-`
/// for the latest run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker answer q-1a2b3c4d \"the new database\"
  caretaker answer nightly - < answer.txt")]
pub(crate) struct AnswerArgs {
    /// The question, or the run that asked it.
    #[arg(value_name = "TO")]
    to: String,
    /// The answer, or `-` to read it from stdin.
    text: OsString,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn answer(helper: &CommandHelper, args: &AnswerArgs) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let text = words_of(&args.text)?;
    let is_question = args.to.starts_with("q-");
    let left = if is_question {
        answer_question(&host.state, &args.to, text)
    } else {
        let run = host.find_run(&args.to)?;
        answer_run(&host.state, run.run_id(), spec_of(&run)?.session, text)
    };
    report(host, &left?, args.json)
}

/// Send a message to a run's agent.
///
/// A live agent gets the message when it calls check_inbox. If its session has no live run, the daemon starts a run
/// that begins with the message.
///
/// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker send nightly \"leave the parser alone\"
  caretaker send - - < notes.txt")]
pub(crate) struct SendArgs {
    /// The run.
    run: String,
    /// The message, or `-` to read it from stdin.
    text: OsString,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn send(helper: &CommandHelper, args: &SendArgs) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let text = words_of(&args.text)?;
    let run = host.find_run(&args.run)?;
    let left = post_message(&host.state, spec_of(&run)?.session, text)?;
    report(host, &left, args.json)
}

fn spec_of(run: &RunDirectory) -> Result<RunSpec, CommandError> {
    run.spec().or_fail(|| format!("cannot find the session of run {}", run.run_id()))
}

fn words_of(text: &OsString) -> Result<String, CommandError> {
    if text.as_encoded_bytes().trim_ascii().is_empty() {
        return Err(CommandError::new(ExitCode::Usage, "the text is empty"));
    }
    let words = PromptSource::of(Some(text), None, Audience::Person)?.read()?;
    let words = String::from_utf8(words).or_fail_as(ExitCode::Usage, || "the text is not UTF-8")?;
    if words.chars().nth(MOST_CHARS).is_some() {
        let what = format!("the text has more than {MOST_CHARS} characters");
        return Err(CommandError::new(ExitCode::Usage, what)
            .hint("put it in a file in the workspace, and send the file's name"));
    }
    Ok(words)
}

fn report(host: &Host, left: &PostedMessage, json: bool) -> Result<ExitCode, CommandError> {
    #[derive(Serialize)]
    struct Report<'a> {
        v: u32,
        #[serde(flatten)]
        left: &'a PostedMessage,
    }
    if json {
        print_json(&Report { v: 1, left })?;
    } else {
        say(how_delivered(host, left.delivery)?);
    }
    Ok(ExitCode::Success)
}

fn how_delivered(host: &Host, delivery: Delivery) -> Result<&'static str, CommandError> {
    Ok(match delivery {
        Delivery::CheckInbox => {
            "queued: the agent is live and receives it when it calls check_inbox"
        }
        Delivery::NextTurn if has_daemon(host)? => {
            "queued: the daemon will deliver it as the session's next turn"
        }
        Delivery::NextTurn => {
            "queued; not delivered: daemon not running\n\
            hint: `caretaker daemon start` delivers it as the session's next turn; or `caretaker resume` the session, and \
            its agent can call check_inbox"
        }
        Delivery::OnResume => {
            "queued; the daemon does not wake this session\n\
            hint: `caretaker resume` the session, and its agent can call check_inbox"
        }
    })
}

fn has_daemon(host: &Host) -> Result<bool, CommandError> {
    Ok(matches!(daemon_presence(host)?, Presence::Held(_)))
}
