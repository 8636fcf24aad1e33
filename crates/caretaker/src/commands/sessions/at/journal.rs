//! `caretaker sessions at … --journal`: a development journal of commits, as Markdown.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use admission::command_error::CommandError;
use admission::host::Host;
use cursor_stores::{Catalogue, Extent};
use run_protocol::{ExitCode, HumanDuration};

use super::{Ranked, roots, window_ms, workspace_names};
use crate::commands::sessions::unread::name_failures;
use crate::commits::episode::{CommitWindow, Episode};
use crate::commits::git::{Commit, Repository};
use crate::commits::ranking::Match;
use crate::data_out::Data;
use crate::export::commit_journal::{self, Entry};
use crate::export::output_file::{Existing, write_whole};
use crate::running::progress::Progress;

/// Looks up at most this many commits before a range.
const MOST_PARENTS: usize = 200;

#[derive(Debug, clap::Args)]
pub(super) struct JournalArgs {
    /// Write a development journal of the commits, as Markdown.
    #[arg(long, conflicts_with = "json")]
    journal: bool,
    /// Write the journal to this file, or `-` for stdout. [default: stdout]
    #[arg(long, short, value_name = "FILE|-", requires = "journal")]
    output: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long, requires = "output")]
    force: bool,
}

/// The sources of a journal.
pub(super) struct Ground<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) repository: &'a Repository,
    pub(super) commits: &'a [Commit],
    pub(super) window: HumanDuration,
}

impl JournalArgs {
    pub(super) fn is_wanted(&self) -> bool {
        self.journal
    }

    pub(super) fn run(
        &self,
        host: &Host,
        ground: &Ground<'_>,
        ranked: &[Ranked],
    ) -> Result<ExitCode, CommandError> {
        let path = self.output.as_ref().filter(|path| path.as_os_str() != "-");
        let window = match ground.window {
            HumanDuration::Unlimited => "since the previous commit".to_owned(),
            HumanDuration::Limited(_) => format!(
                "since the previous commit, but at most {}",
                admission::words::units::duration(window_ms(ground.window))
            ),
        };
        let Some(path) = path.map(|path| host.environment.absolute(path)) else {
            let mut out = Data::of_stdout();
            commit_journal::write(&ground.entries(ranked), &window, &mut out)
                .and_then(|()| out.flush())
                .map_err(CommandError::writing)?;
            return Ok(ExitCode::Success);
        };
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let written = write_whole(&path, existing, |out| {
            commit_journal::write(&ground.entries(ranked), &window, out)
        });
        written.map(|()| ExitCode::Success).map_err(|error| {
            error.into_command_error(format!("cannot write the journal to `{}`", path.display()))
        })
    }
}

impl Ground<'_> {
    /// The commits, oldest first. Reads each conversation once, and keeps only what the journal shows.
    fn entries(&self, ranked: &[Ranked]) -> Vec<Entry<'_>> {
        let windows = self.windows();
        let mut told: Vec<Vec<(Match, Told)>> = self.commits.iter().map(|_| Vec::new()).collect();
        let mut failures = Vec::new();
        let roots = roots(self.repository);
        let progress = Progress::of(ranked.len(), "reading");
        for Ranked { head, matches } in ranked {
            let conversation = match self.catalogue.read(head, Extent::default()) {
                Ok(conversation) => conversation,
                Err(error) => {
                    failures.push((head, error));
                    continue;
                }
            };
            progress.step();
            let workspaces = workspace_names(conversation.head.workspace.as_ref());
            for (index, found) in matches {
                let (Some(window), Some(told)) = (windows.get(*index), told.get_mut(*index)) else {
                    continue;
                };
                let words = match Episode::of(&conversation, window, &roots, &workspaces) {
                    Some(episode) => Told::Episode(commit_journal::episode(&episode, found)),
                    // The conversation changed the commit's files, but before the previous commit.
                    None if !found.files.is_empty() => Told::Earlier(commit_journal::earlier(
                        &head.id,
                        head.title.as_deref(),
                        found,
                    )),
                    None => continue,
                };
                told.push((found.clone(), words));
            }
        }
        drop(progress);
        name_failures(failures, "cannot be read");
        let mut entries: Vec<Entry<'_>> = Vec::new();
        for (commit, mut told) in self.commits.iter().zip(told) {
            told.sort_by_key(|(found, _)| std::cmp::Reverse(found.score));
            let mut entry = Entry { commit, episodes: Vec::new(), earlier: Vec::new() };
            for (_, words) in told {
                match words {
                    Told::Episode(text) => entry.episodes.push(text),
                    Told::Earlier(text) => entry.earlier.push(text),
                }
            }
            entries.push(entry);
        }
        // Git lists newest first; a stable sort keeps its order within one second.
        entries.reverse();
        entries.sort_by_key(|entry| entry.commit.author_ms);
        entries
    }

    /// The time window of each commit. It begins at the previous commit, even if that is outside the range.
    fn windows(&self) -> Vec<CommitWindow> {
        let is_listed = |id: &String| self.commits.iter().any(|commit| commit.id == *id);
        let parents = self.commits.iter().flat_map(|commit| &commit.parents);
        let elsewhere: BTreeSet<&String> = parents.filter(|id| !is_listed(id)).collect();
        // A shallow clone may lack them.
        let elsewhere: Vec<Commit> = elsewhere
            .into_iter()
            .take(MOST_PARENTS)
            .filter_map(|id| self.repository.commit(id).ok())
            .collect();
        let window_ms = window_ms(self.window);
        let window = |commit: &Commit| {
            let known = self.commits.iter().chain(&elsewhere);
            let parents: Vec<&Commit> =
                known.filter(|known| commit.parents.contains(&known.id)).collect();
            CommitWindow::of(commit, &parents, window_ms)
        };
        self.commits.iter().map(window).collect()
    }
}

enum Told {
    Episode(String),
    Earlier(String),
}
