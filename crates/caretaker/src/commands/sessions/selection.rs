//! The flags that select conversations, and the search for the one that the user named.

use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::Host;
use admission::host::store_places::store_places;
use admission::sessions::{changed_ms, is_listed, list, newest_first, report};
use admission::words::safe_text::on_one_line;
use cursor_stores::model::{Head, Origin, StoreKind, display_model};
use cursor_stores::{Catalogue, CatalogueListing, StorePlaces, sdk_directory};
use run_protocol::ExitCode;

use crate::conversations::point_in_time::PointInTime;

/// The stores to read.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Where {
    /// Read only this kind of store: cli, acp, ide, ide-old, sdk, transcript or export. Can be given several times.
    #[arg(long, value_name = "KIND")]
    store: Vec<StoreKind>,
    /// Read this `Cursor/User` directory from another machine or user too.
    #[arg(long, value_name = "DIR")]
    cursor_user_dir: Vec<PathBuf>,
    /// Read this directory of an SDK application too.
    #[arg(long, value_name = "DIR")]
    sdk_store: Vec<PathBuf>,
    /// Read json or jsonl files from `sessions export` instead of this machine's stores: a file or a directory. Can be
    /// given several times.
    #[arg(long, value_name = "FILE|DIR")]
    from: Vec<PathBuf>,
}

/// Conditions on a conversation.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Narrowing {
    /// Only conversations that changed since then: a date, a date and time, or an age such as `3d`.
    #[arg(long, value_name = "WHEN")]
    since: Option<PointInTime>,
    /// Only conversations that began before then.
    #[arg(long, value_name = "WHEN")]
    until: Option<PointInTime>,
    /// Only conversations with a model whose id or name contains this text.
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
}

/// Conditions on a conversation and its workspace.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Filter {
    #[command(flatten)]
    narrowing: Narrowing,
    /// Only conversations about this directory or one below it.
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
}

/// The stores to read and the conversations to select.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Selection {
    #[command(flatten)]
    pub(crate) place: Where,
    #[command(flatten)]
    pub(crate) filter: Filter,
    /// Include sub-agents, archived and empty conversations, and drafts.
    #[arg(long, short)]
    all: bool,
}

impl Where {
    /// Finds the stores.
    pub(crate) fn open(&self, host: &Host) -> Result<Catalogue, CommandError> {
        // An exported conversation must not be mixed with the one in this machine's stores.
        let mut places =
            if self.from.is_empty() { store_places(host)? } else { StorePlaces::default() };
        for (given, list, hint) in [
            (
                &self.cursor_user_dir,
                &mut places.cursor_user_dirs,
                "name the directory with `globalStorage` and `workspaceStorage`",
            ),
            (
                &self.sdk_store,
                &mut places.sdk_stores,
                "name the directory with `index.db` or `agents.ndjson`",
            ),
        ] {
            for path in given {
                let path = host.environment.absolute(path);
                if !path.is_dir() {
                    let what = format!("`{}` is not a directory", path.display());
                    return Err(CommandError::new(ExitCode::Usage, what).hint(hint));
                }
                list.push(path);
            }
        }
        for path in &self.from {
            let path = host.environment.absolute(path);
            let real = std::fs::canonicalize(&path).map_err(|error| {
                let what = format!("cannot read `{}`", path.display());
                CommandError::new(ExitCode::NotFound, what)
                    .because(error)
                    .hint("name a file written by `caretaker sessions export --format json`")
            })?;
            places.exports.push(real);
        }
        Ok(Catalogue::open(&places, &self.store))
    }
}

impl Narrowing {
    /// True if the user gave a condition.
    fn is_given(&self) -> bool {
        self.since.is_some() || self.until.is_some() || self.model.is_some()
    }

    /// True if the conversation's head meets the conditions.
    fn allows(&self, head: &Head) -> bool {
        self.since.is_none_or(|since| changed_ms(head).is_some_and(|at| at >= since.0))
            && self.until.is_none_or(|until| began_ms(head).is_some_and(|at| at < until.0))
    }

    /// Keeps the conversations that meet the conditions. For this, it may read conversations to complete their heads.
    pub(crate) fn retain(&self, catalogue: &Catalogue, heads: &mut Vec<Head>) {
        heads.retain(|head| self.allows(head));
        if let Some(model) = &self.model {
            let model = model.to_lowercase();
            // Views show names, and JSON has ids: match both.
            let is_named = |known: &String| {
                let names = [known.to_lowercase(), display_model(known).to_lowercase()];
                names.iter().any(|name| name.contains(&model))
            };
            let is_meant = |head: &Head| head.models.iter().any(is_named);
            catalogue.complete(heads);
            // Some stores name the models only in messages. Read those only if the head does not name them.
            let (mut meant, mut unsure): (Vec<Head>, Vec<Head>) =
                heads.drain(..).partition(is_meant);
            catalogue.add_models(&mut unsure);
            meant.extend(unsure.into_iter().filter(is_meant));
            *heads = meant;
        }
    }
}

impl Filter {
    /// True if the user gave a condition.
    pub(crate) fn is_given(&self) -> bool {
        self.narrowing.is_given() || self.workspace.is_some()
    }

    /// True if a head is not enough to decide, so that the conversation must be read.
    pub(crate) fn needs_reading(&self) -> bool {
        self.narrowing.model.is_some()
    }

    /// True if the conversation's head meets the conditions.
    pub(crate) fn allows(&self, host: &Host, head: &Head) -> bool {
        let is_there = |workspace: &PathBuf| is_about(head, &canonical(host, workspace));
        self.workspace.as_ref().is_none_or(is_there) && self.narrowing.allows(head)
    }

    /// Keeps the conversations that meet the conditions. For this, it may read conversations to complete their heads.
    pub(crate) fn retain(&self, host: &Host, catalogue: &Catalogue, heads: &mut Vec<Head>) {
        let workspace = self.workspace.as_ref().map(|workspace| canonical(host, workspace));
        heads.retain(|head| workspace.as_ref().is_none_or(|workspace| is_about(head, workspace)));
        self.narrowing.retain(catalogue, heads);
    }
}

impl Selection {
    /// Like [`Self::select`], with sub-agents, archived and empty conversations, and drafts.
    pub(crate) fn select_all(&self, host: &Host, catalogue: &Catalogue) -> Vec<Head> {
        Self { all: true, ..self.clone() }.select(host, catalogue)
    }

    /// True if the user selected anything.
    pub(crate) fn is_given(&self) -> bool {
        self.filter.is_given() || self.all
    }

    /// The selected conversations, newest first. Prints on stderr which stores could not be listed.
    pub(crate) fn select(&self, host: &Host, catalogue: &Catalogue) -> Vec<Head> {
        let mut heads = list(catalogue);
        heads.retain(|head| self.all || is_listed(head));
        self.filter.retain(host, catalogue, &mut heads);
        newest_first(&mut heads);
        heads
    }
}

/// The conversation that the user named. It may be a sub-agent or hidden.
pub(crate) fn find(catalogue: &Catalogue, text: &str) -> Result<Head, CommandError> {
    find_among(catalogue, text, |_| {})
}

/// Like [`find`], among the conversations that meet the filter.
pub(crate) fn find_filtered(
    host: &Host,
    catalogue: &Catalogue,
    filter: &Filter,
    text: &str,
) -> Result<Head, CommandError> {
    find_among(catalogue, text, |heads| filter.retain(host, catalogue, heads))
}

fn find_among(
    catalogue: &Catalogue,
    text: &str,
    narrow: impl Fn(&mut Vec<Head>),
) -> Result<Head, CommandError> {
    let CatalogueListing { mut heads, damage } = catalogue.list();
    if text == "-" {
        heads.retain(is_listed);
        let n_all = heads.len();
        narrow(&mut heads);
        return heads.into_iter().max_by_key(changed_ms).ok_or_else(|| {
            report(&damage);
            let (what, hint) = match n_all {
                0 => (
                    "no conversations on this machine",
                    "see where Caretaker looked: caretaker sessions stores",
                ),
                _ => ("no conversation matches", "see all conversations: caretaker sessions ls"),
            };
            CommandError::new(ExitCode::NotFound, what).hint(hint)
        });
    }
    let kept = kept_by_parents(catalogue, &heads, text);
    heads.retain(|head| begins_with(&head.id, text) || is_in_bucket(head, text));
    heads.extend(kept);
    narrow(&mut heads);
    if let Some(exact) =
        heads.iter().position(|head| head.id == text || on_one_line(&head.id) == text)
    {
        return Ok(heads.swap_remove(exact));
    }
    match heads.len() {
        1 => Ok(heads.swap_remove(0)),
        0 => {
            // An unreadable store may have the conversation.
            report(&damage);
            Err(CommandError::new(ExitCode::NotFound, format!("no conversation `{text}`"))
                .hint("see all conversations: caretaker sessions ls --all"))
        }
        _ => {
            let mut ids: Vec<&str> = heads.iter().map(|head| head.id.as_str()).take(10).collect();
            ids.sort_unstable();
            let what = format!("{} conversations begin with `{text}`", heads.len());
            Err(CommandError::new(ExitCode::Usage, what)
                .hint(format!("write more of the id:\n{}", ids.join("\n"))))
        }
    }
}

/// True if an id begins with the text, raw or as lists show it: some sub-agent ids contain a line end.
fn begins_with(id: &str, text: &str) -> bool {
    !text.is_empty() && (id.starts_with(text) || on_one_line(id).starts_with(text))
}

/// The sub-agents that `PARENT#NAME` means. Only their parents have them; lists do not show them.
fn kept_by_parents(catalogue: &Catalogue, heads: &[Head], text: &str) -> Vec<Head> {
    let Some((parent, name)) = text.split_once('#') else { return Vec::new() };
    let parents: Vec<&Head> = heads.iter().filter(|head| begins_with(&head.id, parent)).collect();
    let exact: Vec<&Head> = parents.iter().copied().filter(|head| head.id == parent).collect();
    let parents = if exact.is_empty() { parents } else { exact };
    let mut kept: Vec<(bool, Head)> = Vec::new();
    for parent in parents {
        for subagent in catalogue.kept_subagents(parent) {
            let Some((_, own_name)) = subagent.id.split_once('#') else { continue };
            let is_exact = own_name == name || on_one_line(own_name) == name;
            if is_exact || begins_with(own_name, name) {
                kept.push((is_exact, subagent));
            }
        }
    }
    let has_exact = kept.iter().any(|(is_exact, _)| *is_exact);
    kept.retain(|(is_exact, _)| *is_exact || !has_exact);
    kept.into_iter().map(|(_, head)| head).collect()
}

/// True if `ID@BUCKET` means this conversation. If several chats share an id, this also names the one that lists show
/// with the bare id. For SDK conversations, the store's directory follows the id.
fn is_in_bucket(head: &Head, text: &str) -> bool {
    text.split_once('@').is_some_and(|(id, bucket)| {
        let is_there = |origin: &Origin| match sdk_directory(origin) {
            Some(directory) => origin.key(head) == id && directory.starts_with(bucket),
            None => head.id == id && origin.key(head).starts_with(bucket),
        };
        !bucket.is_empty() && head.origins.iter().any(is_there)
    })
}

fn began_ms(head: &Head) -> Option<i64> {
    head.created.or(head.updated).map(|moment| moment.at_ms)
}

fn is_about(head: &Head, workspace: &Path) -> bool {
    head.workspace.as_ref().is_some_and(|known| Path::new(&known.path).starts_with(workspace))
}

fn canonical(host: &Host, path: &Path) -> PathBuf {
    let path = host.environment.absolute(path);
    std::fs::canonicalize(&path).unwrap_or(path)
}
