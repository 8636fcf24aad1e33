//! The table: every attempt, and its result for each caller.

use std::collections::BTreeMap;

use abuse::{Answer, Attempt};

use super::hostile::{Caller, Hostile};

/// The final verdict on an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The error or answer that proves it.
    Held(String),
    Escaped(String),
    /// Why the attempt is impossible here.
    NotHere(String),
}

/// One attempt, for all callers.
#[derive(Debug)]
struct Row {
    does: String,
    verdicts: BTreeMap<Caller, Verdict>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// Sorted by id, with numbers in numeric order.
    rows: BTreeMap<(String, u32, String), Row>,
}

impl Verdict {
    /// Judges by the probe's answer alone, before the check on the host.
    pub(super) fn of(attempt: &Attempt, answer: Option<&Answer>) -> Self {
        match answer {
            None => Self::Escaped("no answer".to_owned()),
            Some(Answer::Done(what)) => Self::Escaped(what.clone()),
            Some(Answer::NotHere(why)) => Self::NotHere(why.clone()),
            Some(Answer::Refused(by)) if attempt.held_by.contains(&by.as_str()) => {
                Self::Held(by.clone())
            }
            Some(Answer::Refused(by)) => {
                let expected = attempt.held_by.join(" or ");
                Self::Escaped(format!("refused by {by} instead of {expected}"))
            }
        }
    }
}

impl Table {
    /// Judges by the probe's answer and by the state of the host.
    pub(super) fn judge(
        &mut self,
        caller: Caller,
        attempt: &Attempt,
        answer: Option<&Answer>,
        hostile: &Hostile,
    ) {
        let verdict = match (Verdict::of(attempt, answer), hostile.look(attempt.evidence)) {
            (Verdict::Held(by), Ok(())) => Verdict::Held(by),
            (Verdict::Held(_), Err(shown)) => Verdict::Escaped(format!("the host shows: {shown}")),
            (other, _) => other,
        };
        self.add(caller, attempt.id, attempt.does, verdict);
    }

    pub(super) fn add(&mut self, caller: Caller, id: &str, does: &str, verdict: Verdict) {
        let row = self
            .rows
            .entry(key_of(id))
            .or_insert_with(|| Row { does: does.to_owned(), verdicts: BTreeMap::new() });
        row.verdicts.insert(caller, verdict);
    }

    /// Records attempts that a caller cannot make here.
    pub(super) fn not_here<'a>(
        &mut self,
        caller: Caller,
        attempts: impl Iterator<Item = &'a Attempt>,
        why: &str,
    ) {
        for attempt in attempts {
            self.add(caller, attempt.id, attempt.does, Verdict::NotHere(why.to_owned()));
        }
    }

    pub(super) fn n_attempts(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn print(&self) {
        eprintln!("{:<5} {:<78} {:<8} {:<8} root for a user", "id", "the agent …", "user", "root");
        for (id, row) in &self.rows {
            let word = |caller| match row.verdicts.get(&caller) {
                None => "",
                Some(Verdict::Held(_)) => "held",
                Some(Verdict::Escaped(_)) => "ESCAPED",
                Some(Verdict::NotHere(_)) => "n/a",
            };
            let [user, root, for_user] = Caller::ALL.map(word);
            eprintln!("{:<5} {:<78} {user:<8} {root:<8} {for_user}", name_of(id), row.does);
        }
        for (id, row) in &self.rows {
            for (caller, verdict) in &row.verdicts {
                if let Verdict::Escaped(why) | Verdict::NotHere(why) = verdict {
                    let word =
                        if matches!(verdict, Verdict::NotHere(_)) { "n/a" } else { "ESCAPED" };
                    eprintln!("{} as {caller:?}: {word}: {why}", name_of(id));
                }
            }
        }
        let count = |is_it: fn(&Verdict) -> bool| {
            self.rows.values().flat_map(|row| row.verdicts.values()).filter(|v| is_it(v)).count()
        };
        eprintln!(
            "{} attempts: {} held, {} escaped, {} not applicable here",
            self.rows.len(),
            count(|verdict| matches!(verdict, Verdict::Held(_))),
            count(|verdict| matches!(verdict, Verdict::Escaped(_))),
            count(|verdict| matches!(verdict, Verdict::NotHere(_))),
        );
    }

    /// Checks that no attempt escaped.
    #[track_caller]
    pub(super) fn check(&self) {
        let escaped: Vec<String> = self
            .rows
            .iter()
            .flat_map(|(id, row)| {
                row.verdicts.iter().map(move |(caller, verdict)| (id, caller, verdict))
            })
            .filter_map(|(id, caller, verdict)| match verdict {
                Verdict::Escaped(why) => Some(format!("{} as {caller:?}: {why}", name_of(id))),
                _ => None,
            })
            .collect();
        assert_eq!(escaped, Vec::<String>::new());
    }
}

/// Splits `C10b` into C, 10, b.
fn key_of(id: &str) -> (String, u32, String) {
    let group: String = id.chars().take_while(char::is_ascii_uppercase).collect();
    let rest = &id[group.len()..];
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let number = digits.parse().expect("an id has a number");
    let letter = rest[digits.len()..].to_owned();
    (group, number, letter)
}

fn name_of((group, number, letter): &(String, u32, String)) -> String {
    format!("{group}{number}{letter}")
}
