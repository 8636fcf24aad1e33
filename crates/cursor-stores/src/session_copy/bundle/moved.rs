//! A session as it will be on another machine: everything that its root leads to, with rewritten paths.
//!
//! A blob's name is the hash of its bytes. So a changed blob changes every blob that refers to it, from the leaves to
//! the root. The messages that prompt the model never change: an import uses them to recognise two copies of one
//! conversation.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::machine_paths::PathChange;
use super::path_rules::{LeftOut, Rewriting, has_beside_messages, leads, may_hold_paths};
use crate::chat::schema::references::{BlobKind, Reference, visit_references};
use crate::chat::{BlobId, Fetched};
use crate::session_copy::error::CopyError;
use crate::session_copy::source::Source;

/// The plan for a move, made before anything is written. The writer reads the blobs again, because they may not all fit
/// in memory.
#[derive(Debug)]
pub(crate) struct Moved<'a> {
    change: PathChange<'a>,
    pub(crate) root: BlobId,
    pub(crate) n_blobs: u64,
    pub(crate) n_bytes: u64,
    /// How many blobs are left out because they are unreadable, or because their hash is not their id.
    pub(crate) n_damaged: u64,
    pub(crate) left_out: LeftOutTally,
    pub(crate) naming: NamingTally,
    /// The forms in which the copy contains each blob.
    forms: HashMap<BlobId, Vec<Form>>,
    /// The new ids of blobs that may contain paths.
    becomes: HashMap<(BlobId, BlobKind), BlobId>,
    /// File contents and token counts that name a path on the source machine.
    forbidden: HashSet<BlobId>,
}

/// Everything that is left out. An item counts once, no matter how many checkpoints refer to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LeftOutTally {
    /// Paths outside the workspace, with everything recorded about them.
    pub n_paths: u64,
    /// File contents and token counts that name a path on the source machine.
    pub n_contents: u64,
}

/// Blobs that name a path on the source machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NamingTally {
    /// Messages: prompts, answers, tool calls and their results.
    pub n_messages: u64,
    /// Fields or blobs that this build does not know and so cannot change.
    pub n_unknown: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Unchanged,
    Rewritten(BlobKind),
}

/// Plans the move of everything that a root leads to.
pub(crate) fn moved<'a>(
    source: &Source,
    root: BlobId,
    change: PathChange<'a>,
) -> Result<Moved<'a>, CopyError> {
    let mut planning = Planning {
        source,
        moved: Moved {
            change,
            root,
            n_blobs: 0,
            n_bytes: 0,
            n_damaged: 0,
            left_out: LeftOutTally::default(),
            naming: NamingTally::default(),
            forms: HashMap::new(),
            becomes: HashMap::new(),
            forbidden: HashSet::new(),
        },
        carried: HashSet::new(),
        begun: HashSet::new(),
        seen: HashSet::new(),
        examined: HashSet::new(),
        rest: Vec::new(),
        damaged: HashSet::new(),
        gone: Gone::default(),
        said: HashSet::new(),
        naming: HashSet::new(),
    };
    planning.holders_from(root)?;
    planning.all_that_is_named()?;
    Ok(planning.finish())
}

impl Moved<'_> {
    /// Calls `visit` for every blob, in the order in which Cursor wrote the originals.
    pub(crate) fn visit(
        &self,
        source: &Source,
        mut visit: impl FnMut(BlobId, &[u8]) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        source.visit(
            |id| self.forms.contains_key(id),
            |id, data| {
                for form in self.forms.get(&id).into_iter().flatten() {
                    match form {
                        Form::Unchanged => visit(id, data)?,
                        Form::Rewritten(kind) => {
                            let new = self.rewritten(*kind, data, &mut |_| {});
                            let new = new.as_deref().unwrap_or(data);
                            visit(BlobId::of(new), new)?;
                        }
                    }
                }
                Ok(())
            },
        )
    }

    fn rewritten(
        &self,
        kind: BlobKind,
        data: &[u8],
        left_out: &mut dyn FnMut(LeftOut<'_>),
    ) -> Option<Vec<u8>> {
        let Self { change, becomes, forbidden, .. } = self;
        Rewriting { change: *change, becomes, forbidden, left_out }.rewritten(kind, data)
    }
}

struct Planning<'s, 'a> {
    source: &'s Source,
    moved: Moved<'a>,
    /// The ids that the copy will have.
    carried: HashSet<BlobId>,
    /// Blobs that may contain paths and were visited, or are being visited.
    begun: HashSet<(BlobId, BlobKind)>,
    /// Other blobs, with the kind they were visited as.
    seen: HashSet<(BlobId, BlobKind)>,
    /// File contents and token counts that were searched for paths.
    examined: HashSet<BlobId>,
    /// Blobs still to visit. A blob without a kind is named by bytes, not by a known field.
    rest: Vec<(BlobId, Option<BlobKind>)>,
    damaged: HashSet<BlobId>,
    gone: Gone,
    /// Blobs that are messages, or parts of messages.
    said: HashSet<BlobId>,
    /// Blobs that are copied unchanged and name a path.
    naming: HashSet<BlobId>,
}

/// Everything that is left out, each item once.
#[derive(Debug, Default)]
struct Gone {
    paths: HashSet<Vec<u8>>,
    contents: HashSet<BlobId>,
    has_figures: bool,
}

impl Gone {
    fn add(&mut self, left_out: LeftOut<'_>) {
        match left_out {
            LeftOut::Path(path) => drop(self.paths.insert(path.to_vec())),
            LeftOut::Contents(id) => drop(self.contents.insert(id)),
            LeftOut::Figures => self.has_figures = true,
        }
    }
}

impl<'a> Planning<'_, 'a> {
    /// Decides the new form of every blob that may contain paths, after the blobs that it refers to. Uses a list
    /// instead of recursion: each turn leads to the root before it, and there may be thousands.
    fn holders_from(&mut self, root: BlobId) -> Result<(), CopyError> {
        let mut list = vec![(root, BlobKind::Root, false)];
        while let Some((id, kind, are_leads_known)) = list.pop() {
            // A blob cannot lead to itself: its name is its hash.
            if !are_leads_known && !self.begun.insert((id, kind)) {
                continue;
            }
            let Some(data) = self.source.intact(id)? else {
                self.damaged.insert(id);
                continue;
            };
            if are_leads_known {
                self.decide(id, kind, &data);
                continue;
            }
            list.push((id, kind, true));
            let leads = leads(kind, &data);
            for contents in leads.contents {
                self.examine(contents)?;
            }
            list.extend(
                leads
                    .holders
                    .into_iter()
                    .filter(|held| self.source.ids.contains(&held.0) && !self.begun.contains(held))
                    .map(|(id, kind)| (id, kind, false)),
            );
        }
        Ok(())
    }

    /// Searches file contents or token counts for a path that must not leave the machine.
    fn examine(&mut self, contents: BlobId) -> Result<(), CopyError> {
        if matches!(self.moved.change, PathChange::Departure(_))
            && self.examined.insert(contents)
            && let Fetched::Data(data) = self.source.fetch(contents)?
            && self.moved.change.forbids(&data)
        {
            self.moved.forbidden.insert(contents);
        }
        Ok(())
    }

    fn decide(&mut self, id: BlobId, kind: BlobKind, data: &[u8]) {
        let gone = &mut self.gone;
        let new = self.moved.rewritten(kind, data, &mut |left_out| gone.add(left_out));
        let (new_id, data, form) = match &new {
            Some(new) => (BlobId::of(new), new.as_slice(), Form::Rewritten(kind)),
            None => (id, data, Form::Unchanged),
        };
        self.moved.becomes.insert((id, kind), new_id);
        let change = self.moved.change;
        if self.carry(id, new_id, data.len(), form) && change.forbids(data) {
            if has_beside_messages(kind, data, &|value| change.forbids(value)) {
                self.moved.naming.n_unknown += 1;
            } else {
                self.moved.naming.n_messages += 1;
            }
        }
        self.add_named(data, Some(kind));
    }

    /// Returns `false` if the copy already has this blob.
    fn carry(&mut self, id: BlobId, new_id: BlobId, n_bytes: usize, form: Form) -> bool {
        let is_new = self.carried.insert(new_id);
        if is_new {
            self.moved.n_bytes += n_bytes as u64;
            self.moved.forms.entry(id).or_default().push(form);
        }
        is_new
    }

    /// Copies every blob that a copied blob names, by a known field or by any bytes that are its id. A blob that may
    /// contain paths is copied unchanged only if a blob that cannot be changed names it.
    fn all_that_is_named(&mut self) -> Result<(), CopyError> {
        while let Some((id, kind)) = self.rest.pop() {
            let is_known = match kind {
                None => self.carried.contains(&id),
                Some(kind) => !self.seen.insert((id, kind)),
            };
            if is_known || self.damaged.contains(&id) {
                continue;
            }
            let Some(data) = self.source.intact(id)? else {
                self.damaged.insert(id);
                continue;
            };
            let is_new = self.carry(id, id, data.len(), Form::Unchanged);
            if is_new && self.moved.change.forbids(&data) {
                self.naming.insert(id);
            }
            self.add_named(&data, kind);
        }
        Ok(())
    }

    fn add_named(&mut self, data: &[u8], kind: Option<BlobKind>) {
        let Self { source, rest, seen, carried, said, .. } = self;
        source.ids.visit_named(data, &mut |id| {
            if !carried.contains(&id) {
                rest.push((id, None));
            }
        });
        // Pushed last, so that blobs with a known kind are visited before blobs that only bytes name.
        let Some(kind) = kind else { return };
        visit_references(kind, data, &mut |reference| {
            let Ok(id) = BlobId::try_from(reference.id) else { return };
            if !source.ids.contains(&id) || may_hold_paths(reference.kind) {
                return;
            }
            if is_said(reference) {
                said.insert(id);
            }
            if !seen.contains(&(id, reference.kind)) {
                rest.push((id, Some(reference.kind)));
            }
        })
        .ok();
    }

    fn finish(self) -> Moved<'a> {
        let mut moved = self.moved;
        let n_said = self.naming.intersection(&self.said).count() as u64;
        moved.root =
            moved.becomes.get(&(moved.root, BlobKind::Root)).copied().unwrap_or(moved.root);
        moved.n_blobs = self.carried.len() as u64;
        moved.n_damaged = self.damaged.len() as u64;
        moved.left_out = LeftOutTally {
            n_paths: self.gone.paths.len() as u64,
            n_contents: self.gone.contents.len() as u64 + u64::from(self.gone.has_figures),
        };
        moved.naming.n_messages += n_said;
        moved.naming.n_unknown += self.naming.len() as u64 - n_said;
        moved
    }
}

/// Tells whether a blob is a message or a part of one. The contents of files that the agent changed are neither.
fn is_said(reference: Reference<'_>) -> bool {
    match reference.kind {
        BlobKind::FileState => false,
        BlobKind::Text | BlobKind::Opaque => !["file_states", "token_details"]
            .iter()
            .any(|beside| reference.field.name.starts_with(beside)),
        _ => true,
    }
}

#[cfg(test)]
#[path = "moved_tests.rs"]
mod tests;
