//! `caretaker sessions at` and `between`: find the conversations that led to commits.

mod journal;

use std::path::PathBuf;

use admission::command_error::CommandError;
use admission::host::host_git;
use admission::sessions::report;
use admission::words::talk::note;
use admission::words::units::grouped;
use cursor_stores::model::{Head, Shelf, Workspace};
use cursor_stores::{Catalogue, Extent, ReadConversationError, parallel};
use run_protocol::{BytesPath, ExitCode, HumanDuration};
use serde_json::{Value, json};

use crate::command_helper::CommandHelper;
use crate::commands::sessions::selection::{Narrowing, Where};
use crate::commands::sessions::unread::name_failures;
use crate::commits::evidence::Evidence;
use crate::commits::git::{Commit, GitError, Repository};
use crate::commits::ranking::{Match, Timing, rank};
use crate::data_out::{print_json, print_view};
use crate::running::progress::Progress;
use crate::view::changes::commit_view;
use crate::view::width::Width;
use journal::{Ground, JournalArgs};

/// About one screen.
const DEFAULT_LIMIT: usize = 10;
/// One query covers at most this many commits.
const MOST_COMMITS: usize = 1000;

/// The flags that `at` and `between` share.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    narrowing: Narrowing,
    /// A directory in the repository. [default: the current directory]
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Only conversations active at most this long before the commit; `none` for any time.
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    window: HumanDuration,
    /// List at most N conversations; 0 lists all. [default: 10, and all with --json or --journal]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    journal: JournalArgs,
}

/// Find the conversations that led to a commit, or to the commits in a range.
///
/// The rank of a conversation depends on which of the commit's files it changed, how long before the commit it changed
/// them, and its workspace. Each comes with the reason for its rank. Sub-agents count as conversations of their own.
///
/// With `--journal` it writes Markdown: for each commit the prompts, the files discussed and changed, the commands, and
/// the agent's conclusion, since the previous commit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions at HEAD
  caretaker sessions at v1.2.0~3 -C ../parser --window 2h
  caretaker sessions at main..HEAD --journal -o journal.md
  caretaker sessions at HEAD --json | jq -r '.sessions[0].session'")]
pub(crate) struct AtArgs {
    /// A commit, as git names it: an id, a branch, a tag, `HEAD~2`. Or a range `A..B`: the commits in B but not in A.
    #[arg(value_name = "COMMIT|RANGE")]
    commit: String,
    #[command(flatten)]
    common: Common,
}

/// Find the conversations that led to the commits between two.
///
/// These are the commits in B but not in A, as in `git log A..B`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions between v1.1.0 v1.2.0
  caretaker sessions between main HEAD --window 1h --json")]
pub(crate) struct BetweenArgs {
    /// Where to begin; this commit is not included.
    #[arg(value_name = "A")]
    older: String,
    /// Where to end.
    #[arg(value_name = "B")]
    newer: String,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run_at(helper: &CommandHelper, args: &AtArgs) -> Result<ExitCode, CommandError> {
    let commit = args.commit.as_str();
    // Branch and tag names cannot contain two dots.
    match commit.split_once("..") {
        None => args.common.run(helper, |repository| Ok(vec![repository.commit(commit)?])),
        Some((_, newer)) if newer.starts_with('.') => {
            Err(CommandError::new(ExitCode::Usage, format!("`{commit}` is not a range of commits"))
                .hint("write two dots: `A..B`"))
        }
        Some((older, newer)) => {
            let or_head = |name| if str::is_empty(name) { "HEAD" } else { name };
            args.common.run_range(helper, or_head(older), or_head(newer))
        }
    }
}

pub(crate) fn run_between(
    helper: &CommandHelper,
    args: &BetweenArgs,
) -> Result<ExitCode, CommandError> {
    args.common.run_range(helper, &args.older, &args.newer)
}

/// A conversation and the commits that it may have led to, likeliest first.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) head: Head,
    /// With the index of each commit. Never empty.
    pub(crate) matches: Vec<(usize, Match)>,
}

impl Ranked {
    pub(crate) fn score(&self) -> u32 {
        self.matches.first().map_or(0, |(_, found)| found.score)
    }
}

impl Common {
    fn run_range(
        &self,
        helper: &CommandHelper,
        older: &str,
        newer: &str,
    ) -> Result<ExitCode, CommandError> {
        self.run(helper, |repository| {
            let commits = repository.commits_between(older, newer, MOST_COMMITS)?;
            if commits.len() == MOST_COMMITS {
                note(&format!("only the newest {} commits", grouped(MOST_COMMITS as u64)));
            }
            if commits.is_empty() {
                note(&format!("no commits in `{older}..{newer}`"));
            }
            Ok(commits)
        })
    }

    fn run(
        &self,
        helper: &CommandHelper,
        commits: impl FnOnce(&Repository) -> Result<Vec<Commit>, GitError>,
    ) -> Result<ExitCode, CommandError> {
        let host = &helper.host;
        let directory = match &self.workspace {
            Some(path) => host.environment.absolute(path),
            None => host.environment.working_directory.clone(),
        };
        let git = host_git::find(host, None)?;
        let repository = Repository::around(git, &directory).map_err(refused)?;
        let commits = commits(&repository).map_err(refused)?;
        if commits.is_empty() && self.journal.is_wanted() {
            let what = "no commits to write a journal about";
            return Err(CommandError::new(ExitCode::NotFound, what).hint(
                "the older commit comes first; see the commits with `git log --oneline A..B`",
            ));
        }
        let catalogue = self.place.open(host)?;
        let mut ranked = if commits.is_empty() {
            Vec::new()
        } else {
            self.rank_all(&catalogue, &repository, &commits)
        };
        let n_ranked = ranked.len();
        let limit = match self.limit {
            None if self.json || self.journal.is_wanted() => usize::MAX,
            None => DEFAULT_LIMIT,
            Some(0) => usize::MAX,
            Some(limit) => limit,
        };
        ranked.truncate(limit);
        if self.journal.is_wanted() {
            let ground = Ground {
                catalogue: &catalogue,
                repository: &repository,
                commits: &commits,
                window: self.window,
            };
            return self.journal.run(host, &ground, &ranked);
        }
        if self.json {
            return print_json(&answer(&repository, &commits, &ranked, n_ranked));
        }
        print_view(|out| commit_view::print(out, &commits, &ranked, Width::of_stdout()))?;
        if ranked.is_empty() && !commits.is_empty() {
            note(match self.window {
                HumanDuration::Unlimited => "no conversations",
                HumanDuration::Limited(_) => {
                    "no conversations; look further back with `--window 1d`, or `--window none`"
                }
            });
        }
        if n_ranked > ranked.len() {
            let n_more = grouped((n_ranked - ranked.len()) as u64);
            note(&format!("{n_more} more: `--limit 0` for all"));
        }
        Ok(ExitCode::Success)
    }

    fn rank_all(
        &self,
        catalogue: &Catalogue,
        repository: &Repository,
        commits: &[Commit],
    ) -> Vec<Ranked> {
        let window_ms = window_ms(self.window);
        let listing = catalogue.list();
        report(&listing.damage);
        let mut heads = listing.heads;
        heads.retain(|head| {
            !matches!(head.shelf, Shelf::Empty | Shelf::Draft) && may_fit(head, commits, window_ms)
        });
        self.narrowing.retain(catalogue, &mut heads);
        let roots = roots(repository);
        let progress = Progress::of(heads.len(), "reading");
        let matched = parallel::map(&heads, |head| {
            let read = catalogue.read(head, Extent::default());
            progress.step();
            let conversation = read?;
            let workspaces = workspace_names(conversation.head.workspace.as_ref());
            let evidence = Evidence::of(&conversation, &roots, &workspaces);
            Ok::<_, ReadConversationError>(matches(commits, &evidence, window_ms))
        });
        drop(progress);
        let (mut ranked, mut failures) = (Vec::new(), Vec::new());
        for (head, matched) in heads.iter().zip(matched) {
            match matched {
                Ok(matches) if matches.is_empty() => {}
                Ok(matches) => ranked.push(Ranked { head: head.clone(), matches }),
                Err(error) => failures.push((head, error)),
            }
        }
        name_failures(failures, "cannot be read");
        // The order is the same each time, even for equal ranks.
        ranked.sort_by(|one, other| {
            let key = |ranked: &Ranked| (ranked.score(), ranked.matches.len());
            key(other).cmp(&key(one)).then_with(|| one.head.id.cmp(&other.head.id))
        });
        ranked
    }
}

/// The window in milliseconds.
pub(super) fn window_ms(window: HumanDuration) -> u64 {
    match window {
        HumanDuration::Unlimited => u64::MAX,
        HumanDuration::Limited(_) => window.milliseconds(),
    }
}

/// The worktrees of the repository, as text.
pub(super) fn roots(repository: &Repository) -> Vec<String> {
    repository.worktrees.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

fn matches(commits: &[Commit], evidence: &Evidence, window_ms: u64) -> Vec<(usize, Match)> {
    let ranked = commits.iter().map(|commit| rank(commit, evidence, window_ms));
    let mut matches: Vec<(usize, Match)> =
        ranked.enumerate().filter_map(|(index, found)| Some((index, found?))).collect();
    matches.sort_by_key(|(_, found)| std::cmp::Reverse(found.score));
    matches
}

/// True if the conversation must be read: it began before the last commit, and was still active within the window
/// before the first.
fn may_fit(head: &Head, commits: &[Commit], window_ms: u64) -> bool {
    let moments = || commits.iter().flat_map(|commit| [commit.author_ms, commit.commit_ms]);
    let (Some(first), Some(last)) = (moments().min(), moments().max()) else { return false };
    let window_ms = i64::try_from(window_ms).unwrap_or(i64::MAX);
    let is_begun = head.created.is_none_or(|moment| moment.at_ms <= last.saturating_add(1000));
    let goes_on = head.updated.is_none_or(|moment| moment.at_ms >= first.saturating_sub(window_ms));
    is_begun && goes_on
}

/// The workspace's path from the store, and its path without links if it is on this machine.
pub(super) fn workspace_names(workspace: Option<&Workspace>) -> Vec<String> {
    let Some(workspace) = workspace else { return Vec::new() };
    let mut names = vec![workspace.path.clone()];
    if workspace.place.is_here()
        && let Ok(real) = std::fs::canonicalize(&workspace.path)
    {
        names.push(real.to_string_lossy().into_owned());
    }
    names
}

fn refused(error: GitError) -> CommandError {
    let what = error.to_string();
    match error {
        GitError::NoSuchCommit(_) => CommandError::new(ExitCode::NotFound, what)
            .hint("see the commits with `git log --oneline`"),
        GitError::NotARepository { said, .. } => {
            let failed = CommandError::new(ExitCode::Usage, what).hint("name one with `-C DIR`");
            if said.is_empty() { failed } else { failed.because(said) }
        }
        GitError::Run(cause) => host_git::refused(what, cause),
        GitError::Refused(_) => CommandError::new(ExitCode::Failed, what),
    }
}

/// The answer, as `--json` prints it. `n_sessions` counts all conversations, listed or not.
fn answer(
    repository: &Repository,
    commits: &[Commit],
    ranked: &[Ranked],
    n_sessions: usize,
) -> Value {
    let of_commit = |commit: &Commit| {
        let Commit { id, subject, author_ms, commit_ms, files, .. } = commit;
        json!({
            "commit": id,
            "subject": subject,
            "author_ms": author_ms,
            "commit_ms": commit_ms,
            "files": files,
        })
    };
    let of_match = |(index, found): &(usize, Match)| {
        json!({
            "commit": commits[*index].id,
            "score": found.score,
            "reason": found.reason(),
            // The commit's files that the conversation changed before the commit.
            "files": found.files,
            "workspace": found.workspace,
            // The time from the last change to the commit's files, or from any activity, to the commit; `null` if
            // unknown.
            "before_ms": match found.timing {
                Timing::ChangedBefore(ms) | Timing::ActiveBefore(ms) => Some(ms),
                Timing::Open | Timing::Unknown => None,
            },
        })
    };
    let of_session = |ranked: &Ranked| {
        let head = &ranked.head;
        json!({
            "session": head.id,
            "title": head.title,
            // From 0 to 100, for the commit that it fits best.
            "score": ranked.score(),
            "workspace": head.workspace,
            // The parent, if this is a sub-agent.
            "parent": head.parent.as_ref().map(|parent| &parent.id),
            "matches": ranked.matches.iter().map(of_match).collect::<Vec<_>>(),
        })
    };
    json!({
        "v": 1,
        "repository": BytesPath::from(repository.root.as_path()),
        "commits": commits.iter().map(of_commit).collect::<Vec<_>>(),
        "n_sessions": n_sessions,
        "sessions": ranked.iter().map(of_session).collect::<Vec<_>>(),
    })
}
