//! Finds the items that two histories of one conversation share.
//!
//! ```text
//!  prompt   prompt─────reasoning──text──call───────────────text
//!             ║           │        ║     ║                  ║
//!  turns    prompt─────thinking──text──call──thinking─────text
//!                                               └ only here
//! ```
//!
//! Requests and calls have ids: an id that occurs once in each history is an anchor. Between two anchors the longest
//! common sequence decides.

use std::collections::HashMap;

/// An item that both histories may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Atom<'a> {
    pub(crate) kind: AtomKind,
    /// The id of the request or the call.
    pub(crate) id: Option<&'a str>,
    /// The words, the thought, or the name of the called tool.
    pub(crate) text: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AtomKind {
    Prompt,
    Text,
    Thinking,
    Call,
}

/// Where the prompt has an item from the turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counterpart<Place> {
    /// The prompt has the same item here.
    Same(Place),
    /// The item is part of a longer text here.
    Within(Place),
    Absent,
}

impl<Place> Counterpart<Place> {
    pub(crate) fn map<Other>(self, to: impl FnOnce(Place) -> Other) -> Counterpart<Other> {
        match self {
            Self::Same(place) => Counterpart::Same(to(place)),
            Self::Within(place) => Counterpart::Within(to(place)),
            Self::Absent => Counterpart::Absent,
        }
    }
}

/// In a gap that needs more comparisons than this, compare only neighbours.
const MAX_CELLS: usize = 1 << 20;

/// Finds the counterpart in `prompt` for every item in `turns`. Matching items keep their order, and each has only one
/// counterpart.
pub(crate) fn align(prompt: &[Atom<'_>], turns: &[Atom<'_>]) -> Vec<Counterpart<usize>> {
    let mut counterparts = vec![Counterpart::Absent; turns.len()];
    let anchors = anchors(prompt, turns);
    let ends = [(prompt.len(), turns.len())];
    let (mut prompt_from, mut turns_from) = (0, 0);
    for (prompt_to, turns_to) in anchors.into_iter().chain(ends) {
        let gap =
            Gap { prompt: &prompt[prompt_from..prompt_to], turns: &turns[turns_from..turns_to] };
        for (at, counterpart) in gap.align().into_iter().enumerate() {
            counterparts[turns_from + at] = counterpart.map(|in_gap| prompt_from + in_gap);
        }
        if let Some(anchor) = counterparts.get_mut(turns_to) {
            *anchor = Counterpart::Same(prompt_to);
        }
        (prompt_from, turns_from) = (prompt_to + 1, turns_to + 1);
    }
    counterparts
}

/// Like [`align`], but for a prompt whose beginning was not read: if several items are equal, the last ones match.
pub(crate) fn align_ends(prompt: &[Atom<'_>], turns: &[Atom<'_>]) -> Vec<Counterpart<usize>> {
    let prompt_back: Vec<_> = prompt.iter().rev().copied().collect();
    let turns_back: Vec<_> = turns.iter().rev().copied().collect();
    let counterparts = align(&prompt_back, &turns_back).into_iter().rev();
    counterparts.map(|counterpart| counterpart.map(|at| prompt.len() - 1 - at)).collect()
}

/// Pairs items whose id occurs once in each history. Returns the longest sequence of pairs that are in the same order
/// in both.
fn anchors(prompt: &[Atom<'_>], turns: &[Atom<'_>]) -> Vec<(usize, usize)> {
    let in_prompt = once_each(prompt);
    let mut pairs: Vec<(usize, usize)> = once_each(turns)
        .into_iter()
        .filter_map(|(id, turns_at)| Some((*in_prompt.get(&id)?, turns_at)))
        .collect();
    pairs.sort_unstable_by_key(|(_, turns_at)| *turns_at);
    longest_increasing(&pairs)
}

fn once_each<'a>(atoms: &[Atom<'a>]) -> HashMap<(AtomKind, &'a str), usize> {
    let mut places: HashMap<(AtomKind, &str), Option<usize>> = HashMap::new();
    for (at, atom) in atoms.iter().enumerate() {
        if let Some(id) = atom.id {
            places.entry((atom.kind, id)).and_modify(|place| *place = None).or_insert(Some(at));
        }
    }
    places.into_iter().filter_map(|(id, place)| Some((id, place?))).collect()
}

/// Patience sorting: `ends[n]` is the pair that ends the best sequence of n + 1 pairs.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (at, (prompt_at, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < *prompt_at);
        before[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut longest = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        longest.push(pairs[at]);
        next = before[at];
    }
    longest.reverse();
    longest
}

struct Gap<'g, 'a> {
    prompt: &'g [Atom<'a>],
    turns: &'g [Atom<'a>],
}

impl Gap<'_, '_> {
    fn align(&self) -> Vec<Counterpart<usize>> {
        let n_cells = (self.prompt.len() + 1).saturating_mul(self.turns.len() + 1);
        let mut counterparts =
            if n_cells <= MAX_CELLS { self.by_likeness() } else { self.by_neighbourhood() };
        let mut is_taken = vec![false; self.prompt.len()];
        for counterpart in &counterparts {
            if let Counterpart::Same(at) = counterpart {
                is_taken[*at] = true;
            }
        }
        for (at, atom) in self.turns.iter().enumerate() {
            if counterparts[at] == Counterpart::Absent && atom.kind == AtomKind::Text {
                counterparts[at] = self.within(atom.text, &is_taken);
            }
        }
        counterparts
    }

    /// Finds the sequence with the greatest total likeness.
    fn by_likeness(&self) -> Vec<Counterpart<usize>> {
        let width = self.prompt.len() + 1;
        // Cell (t, p): the best sum from t and p on.
        let mut best = vec![0_u32; width * (self.turns.len() + 1)];
        for t in (0..self.turns.len()).rev() {
            for p in (0..self.prompt.len()).rev() {
                let skipped = best[(t + 1) * width + p].max(best[t * width + p + 1]);
                let likeness = likeness(&self.prompt[p], &self.turns[t]);
                let taken = if likeness > 0 { likeness + best[(t + 1) * width + p + 1] } else { 0 };
                best[t * width + p] = skipped.max(taken);
            }
        }
        let mut counterparts = vec![Counterpart::Absent; self.turns.len()];
        let (mut t, mut p) = (0, 0);
        while t < self.turns.len() && p < self.prompt.len() {
            let here = best[t * width + p];
            let likeness = likeness(&self.prompt[p], &self.turns[t]);
            if likeness > 0 && here == likeness + best[(t + 1) * width + p + 1] {
                counterparts[t] = Counterpart::Same(p);
                (t, p) = (t + 1, p + 1);
            } else if here == best[(t + 1) * width + p] {
                t += 1;
            } else {
                p += 1;
            }
        }
        counterparts
    }

    /// A cheap method for gaps that are larger than in any real conversation.
    fn by_neighbourhood(&self) -> Vec<Counterpart<usize>> {
        const REACH: usize = 64;
        let mut from = 0;
        self.turns
            .iter()
            .map(|atom| {
                let near = self.prompt[from..].iter().take(REACH);
                match near.into_iter().position(|other| likeness(other, atom) > 1) {
                    Some(at) => {
                        let found = from + at;
                        from = found + 1;
                        Counterpart::Same(found)
                    }
                    None => Counterpart::Absent,
                }
            })
            .collect()
    }

    /// Looks for a text inside a longer text that has no counterpart of its own.
    fn within(&self, text: &str, is_taken: &[bool]) -> Counterpart<usize> {
        const MAX_COMPARED: usize = 1_000;
        let text = text.trim();
        let mut texts = self.prompt.iter().zip(is_taken).take(MAX_COMPARED);
        let holder = texts.position(|(atom, is_taken)| {
            let is_text = atom.kind == AtomKind::Text && !is_taken;
            is_text && memchr::memmem::find(atom.text.as_bytes(), text.as_bytes()).is_some()
        });
        holder.map_or(Counterpart::Absent, Counterpart::Within)
    }
}

/// Rates how likely it is that two items are the same. 0 means that they differ.
fn likeness(prompt: &Atom<'_>, turn: &Atom<'_>) -> u32 {
    if prompt.kind != turn.kind {
        return 0;
    }
    let is_same_text = prompt.text.trim() == turn.text.trim();
    match (prompt.kind, prompt.id, turn.id) {
        (AtomKind::Prompt | AtomKind::Call, Some(one), Some(other)) => u32::from(one == other) * 8,
        (AtomKind::Prompt | AtomKind::Text, ..) => u32::from(is_same_text) * 4,
        (AtomKind::Call, ..) => u32::from(is_same_text) * 2,
        // The interface may show a shorter form of the thought.
        (AtomKind::Thinking, ..) => {
            if is_same_text {
                4
            } else {
                1
            }
        }
    }
}

#[cfg(test)]
#[path = "alignment_tests.rs"]
mod tests;
