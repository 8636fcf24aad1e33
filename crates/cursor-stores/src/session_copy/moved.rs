//! What a session becomes on another machine: what its root leads to, with blobs that keep paths written anew.
//!
//! A blob's name is the hash of its bytes, so that whatever names a changed one changes too, from the leaves to the root.
//! What the model is prompted with never does: by that, two copies are known to be of one conversation.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::machine_paths::PathChange;
use super::path_rules::{Holder, LeftOut, Rewriting};
use super::reachable::{CopySourceError, Source};
use crate::chat::references::{BlobKind, Reference, visit_references};
use crate::chat::{BlobId, Fetched};

/// What a session becomes, found out before anything is written. Blobs are read again for that: not all fit into memory.
#[derive(Debug)]
pub(super) struct Moved<'a> {
    change: PathChange<'a>,
    pub(super) root: BlobId,
    pub(super) n_blobs: u64,
    pub(super) n_bytes: u64,
    /// Blobs that were reached and cannot be read, or whose hash is not their id. They stay behind.
    pub(super) n_damaged: u64,
    pub(super) left_out: LeftOutTally,
    pub(super) naming: NamingTally,
    /// In which forms each blob is carried.
    forms: HashMap<BlobId, Vec<Form>>,
    /// What holders of paths became.
    becomes: HashMap<(BlobId, Holder), BlobId>,
    may_stay: HashMap<BlobId, bool>,
}

/// What stayed behind, each thing counted once, however many checkpoints know of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LeftOutTally {
    /// Paths outside of the workspace, and what was noted only about them.
    pub n_paths: u64,
    /// Contents of files, and figures, in which a path of the machine stood.
    pub n_contents: u64,
}

/// Blobs that name a path of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NamingTally {
    /// In what was said: prompts, answers, calls of tools and their results.
    pub n_messages: u64,
    /// In fields or blobs that this build does not know, and so cannot change.
    pub n_unknown: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    AsItIs,
    Rewritten(Holder),
}

/// Finds out what becomes of everything that a root leads to.
pub(super) fn moved<'a>(
    source: &Source,
    root: BlobId,
    change: PathChange<'a>,
) -> Result<Moved<'a>, CopySourceError> {
    let mut finding = Finding {
        source,
        change,
        becomes: HashMap::new(),
        may_stay: HashMap::new(),
        forms: HashMap::new(),
        n_bytes: 0,
        carried: HashSet::new(),
        begun: HashSet::new(),
        seen: HashSet::new(),
        rest: Vec::new(),
        damaged: HashSet::new(),
        gone: Gone::default(),
        said: HashSet::new(),
        naming: HashSet::new(),
        naming_holders: NamingTally::default(),
    };
    finding.holders_from(root)?;
    finding.all_that_is_named()?;
    Ok(finding.finish(root))
}

impl Moved<'_> {
    /// Calls `visit` with every blob, in the order in which the originals were written.
    pub(super) fn visit<E: From<CopySourceError>>(
        &self,
        source: &Source,
        mut visit: impl FnMut(BlobId, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        source.visit(
            |id| self.forms.contains_key(id),
            |id, data| {
                for form in self.forms.get(&id).into_iter().flatten() {
                    match form {
                        Form::AsItIs => visit(id, data)?,
                        Form::Rewritten(holder) => {
                            let new = rewritten(
                                *holder,
                                data,
                                self.change,
                                &self.becomes,
                                &self.may_stay,
                                &mut |_| {},
                            );
                            let new = new.as_deref().unwrap_or(data);
                            visit(BlobId::of(new), new)?;
                        }
                    }
                }
                Ok(())
            },
        )
    }
}

fn rewritten(
    holder: Holder,
    data: &[u8],
    change: PathChange<'_>,
    becomes: &HashMap<(BlobId, Holder), BlobId>,
    may_stay: &HashMap<BlobId, bool>,
    left_out: &mut dyn FnMut(LeftOut<'_>),
) -> Option<Vec<u8>> {
    holder.rewritten(
        data,
        &mut Rewriting {
            change,
            becomes: &|id, holder| becomes.get(&(id, holder)).copied().unwrap_or(id),
            may_stay: &|id| may_stay.get(&id).copied().unwrap_or(true),
            left_out,
        },
    )
}

struct Finding<'s, 'a> {
    source: &'s Source,
    change: PathChange<'a>,
    becomes: HashMap<(BlobId, Holder), BlobId>,
    may_stay: HashMap<BlobId, bool>,
    forms: HashMap<BlobId, Vec<Form>>,
    n_bytes: u64,
    /// The ids that are carried, those of rewritten blobs included.
    carried: HashSet<BlobId>,
    /// Holders of paths that were looked into, or are being.
    begun: HashSet<(BlobId, Holder)>,
    /// Others, as what they were looked into.
    seen: HashSet<(BlobId, BlobKind)>,
    /// Those that are still to be looked into; without a kind, they are only named.
    rest: Vec<(BlobId, Option<BlobKind>)>,
    damaged: HashSet<BlobId>,
    gone: Gone,
    /// Blobs that are messages, or parts of one.
    said: HashSet<BlobId>,
    /// Blobs carried as they are that name a path.
    naming: HashSet<BlobId>,
    naming_holders: NamingTally,
}

/// What stays behind, each once.
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

impl<'a> Finding<'_, 'a> {
    /// Decides what holders become, those that are led to before those that lead to them. A list and not a recursion: each
    /// turn leads to the root before it, and there may be thousands.
    fn holders_from(&mut self, root: BlobId) -> Result<(), CopySourceError> {
        let mut list = vec![(root, Holder::Root, false)];
        while let Some((id, holder, are_leads_known)) = list.pop() {
            // Nothing whose name is its hash can lead to itself.
            if !are_leads_known && !self.begun.insert((id, holder)) {
                continue;
            }
            let data = match self.source.fetch(id)? {
                Fetched::Data(data) if BlobId::of(&data) == id => data,
                _ => {
                    self.damaged.insert(id);
                    continue;
                }
            };
            if are_leads_known {
                self.decide(id, holder, &data);
                continue;
            }
            list.push((id, holder, true));
            let leads = holder.leads(&data);
            for contents in leads.contents {
                self.look_into(contents)?;
            }
            list.extend(
                leads
                    .holders
                    .into_iter()
                    .filter(|held| self.source.ids.contains(&held.0) && !self.begun.contains(held))
                    .map(|(id, holder)| (id, holder, false)),
            );
        }
        Ok(())
    }

    fn look_into(&mut self, contents: BlobId) -> Result<(), CopySourceError> {
        if let PathChange::Departure(_) = self.change
            && !self.may_stay.contains_key(&contents)
        {
            let names = match self.source.fetch(contents)? {
                Fetched::Data(data) => self.change.forbids(&data),
                _ => false,
            };
            self.may_stay.insert(contents, !names);
        }
        Ok(())
    }

    fn decide(&mut self, id: BlobId, holder: Holder, data: &[u8]) {
        let Self { change, becomes, may_stay, gone, .. } = self;
        let mut leave_out = |left_out: LeftOut<'_>| gone.add(left_out);
        let new = rewritten(holder, data, *change, becomes, may_stay, &mut leave_out);
        let (new_id, data, form) = match &new {
            Some(new) => (BlobId::of(new), new.as_slice(), Form::Rewritten(holder)),
            None => (id, data, Form::AsItIs),
        };
        self.becomes.insert((id, holder), new_id);
        if self.carry(id, new_id, data.len(), form) && self.change.forbids(data) {
            let is_named = |value: &[u8]| self.change.forbids(value);
            if holder.has_beside_messages(data, &is_named) {
                self.naming_holders.n_unknown += 1;
            } else {
                self.naming_holders.n_messages += 1;
            }
        }
        self.add_named(data, Some(holder.kind()));
    }

    /// `false` if the same is carried already.
    fn carry(&mut self, id: BlobId, new_id: BlobId, n_bytes: usize, form: Form) -> bool {
        let is_new = self.carried.insert(new_id);
        if is_new {
            self.n_bytes += n_bytes as u64;
            self.forms.entry(id).or_default().push(form);
        }
        is_new
    }

    /// Whatever is named by what is carried comes along as it is: by a field that is known, or by any bytes that are its
    /// name. Holders of paths do so only where something names them that cannot be changed.
    fn all_that_is_named(&mut self) -> Result<(), CopySourceError> {
        while let Some((id, kind)) = self.rest.pop() {
            let is_known = match kind {
                None => self.carried.contains(&id),
                Some(kind) => !self.seen.insert((id, kind)),
            };
            if is_known || self.damaged.contains(&id) {
                continue;
            }
            match self.source.fetch(id)? {
                Fetched::Data(data) if BlobId::of(&data) == id => {
                    if self.carry(id, id, data.len(), Form::AsItIs) && self.change.forbids(&data) {
                        self.naming.insert(id);
                    }
                    self.add_named(&data, kind);
                }
                _ => drop(self.damaged.insert(id)),
            }
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
        // Put on top: what a field knows of a blob is looked at before its mere name.
        let Some(kind) = kind else { return };
        visit_references(kind, data, &mut |reference| {
            let Ok(id) = BlobId::try_from(reference.id) else { return };
            if !source.ids.contains(&id) || Holder::of_kind(reference.kind).is_some() {
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

    fn finish(self, root: BlobId) -> Moved<'a> {
        let n_said = self.naming.intersection(&self.said).count() as u64;
        Moved {
            change: self.change,
            root: self.becomes.get(&(root, Holder::Root)).copied().unwrap_or(root),
            n_blobs: self.carried.len() as u64,
            n_bytes: self.n_bytes,
            n_damaged: self.damaged.len() as u64,
            left_out: LeftOutTally {
                n_paths: self.gone.paths.len() as u64,
                n_contents: self.gone.contents.len() as u64 + u64::from(self.gone.has_figures),
            },
            naming: NamingTally {
                n_messages: self.naming_holders.n_messages + n_said,
                n_unknown: self.naming_holders.n_unknown + self.naming.len() as u64 - n_said,
            },
            forms: self.forms,
            becomes: self.becomes,
            may_stay: self.may_stay,
        }
    }
}

/// Tells whether a blob is a message or a part of one. Contents of files that the agent changed are kept beside.
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
