//! Prints commits and the conversations that led to them.

use std::io::{self, Write};

use admission::words::safe_text::on_one_line;
use admission::words::units::counted;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::commands::sessions::at::Ranked;
use crate::commits::git::Commit;
use crate::view::styled_line::{BOLD, DIM, GOOD, ODD, PLAIN, write_line};
use crate::view::width::Width;

/// Names at most this many commits, and counts the rest.
const MOST_COMMITS: usize = 10;
/// Names at most this many commits per conversation.
const MOST_MATCHES: usize = 3;
/// A score of at least this means that the files match.
const GOOD_SCORE: u32 = 60;

pub(crate) fn print(
    out: &mut dyn Write,
    commits: &[Commit],
    ranked: &[Ranked],
    width: Width,
) -> io::Result<()> {
    for commit in commits.iter().take(MOST_COMMITS) {
        print_commit(out, commit, width)?;
    }
    if commits.len() > MOST_COMMITS {
        let n_more = (commits.len() - MOST_COMMITS) as u64;
        let text = format!("and {} more", counted(n_more, "commit", "commits"));
        write_line(out, &[(DIM, &text)], width)?;
    }
    for ranked in ranked {
        writeln!(out)?;
        print_ranked(out, commits, ranked, width)?;
    }
    Ok(())
}

fn print_commit(out: &mut dyn Write, commit: &Commit, width: Width) -> io::Result<()> {
    let subject = on_one_line(&commit.subject);
    let files = counted(commit.files.len() as u64, "file", "files");
    let when = moment(commit.commit_ms);
    let pieces = [
        (ODD, short(&commit.id)),
        (PLAIN, " "),
        (BOLD, subject.as_ref()),
        (DIM, "  "),
        (DIM, when.as_str()),
        (DIM, ", "),
        (DIM, files.as_str()),
    ];
    write_line(out, &pieces, width)
}

/// Prints the score, the conversation and its title, and below them the full reasons.
fn print_ranked(
    out: &mut dyn Write,
    commits: &[Commit],
    ranked: &Ranked,
    width: Width,
) -> io::Result<()> {
    let head = &ranked.head;
    let style = if ranked.score() >= GOOD_SCORE { GOOD } else { PLAIN };
    let score = format!("{:>3}", ranked.score());
    let id = on_one_line(&head.id);
    let title = on_one_line(head.title.as_deref().unwrap_or_default());
    let pieces =
        [(style, score.as_str()), (PLAIN, "  "), (PLAIN, &id), (PLAIN, "  "), (BOLD, &title)];
    write_line(out, &pieces, width)?;
    let indented = |out: &mut dyn Write, text: &str| {
        write_line(out, &[(PLAIN, "     "), (DIM, &on_one_line(text))], Width::Unlimited)
    };
    if let Some(parent) = &head.parent {
        indented(out, &format!("sub-agent of {}", parent.id))?;
    }
    if let ([_], [(_, only)]) = (commits, ranked.matches.as_slice()) {
        return indented(out, &only.reason());
    }
    let of_all = format!("{} of {}", ranked.matches.len(), commits.len());
    indented(out, &format!("may have led to {of_all} commits"))?;
    for (index, found) in ranked.matches.iter().take(MOST_MATCHES) {
        let Some(commit) = commits.get(*index) else { continue };
        indented(out, &format!("{:>3}  {}  {}", found.score, short(&commit.id), found.reason()))?;
    }
    Ok(())
}

fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

/// `2026-07-01 09:30` in the user's time zone.
fn moment(milliseconds: i64) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(timestamp) => {
            timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
        }
        Err(_) => "at an unknown time".to_owned(),
    }
}
