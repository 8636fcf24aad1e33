//! Whose turn it is where no daemon says so: a pure decision.

use std::path::{Path, PathBuf};

use admission::config::caps::{CapKind, Caps};

/// What a run of a batch takes of what is scarce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) model: Option<String>,
    /// Its physical path; `None` for a worktree that is made for it alone.
    pub(crate) workspace: Option<PathBuf>,
}

/// The first of those that wait that may start beside those under way. All are of one group and one account.
pub(crate) fn next<'a>(
    waiting: impl IntoIterator<Item = (usize, &'a Taken)>,
    under_way: &[&Taken],
    caps: &Caps,
    group: &str,
    account: Option<&str>,
) -> Option<usize> {
    let n_under_way = u32::try_from(under_way.len()).unwrap_or(u32::MAX);
    let of_all = [
        Some(caps.total),
        caps.of(CapKind::Group, group),
        account.and_then(|account| caps.of(CapKind::Account, account)),
    ];
    if of_all.into_iter().flatten().any(|cap| n_under_way >= cap) {
        return None;
    }
    let has_place = |wanted: &Taken| {
        let cap = wanted.model.as_deref().and_then(|model| caps.of(CapKind::Model, model));
        let n_of_model = under_way.iter().filter(|it| it.model == wanted.model).count();
        cap.is_none_or(|cap| n_of_model < cap as usize)
            && !under_way.iter().any(|it| are_nested(it, wanted))
    };
    waiting.into_iter().find(|(_, wanted)| has_place(wanted)).map(|(index, _)| index)
}

/// Two live agents never share a workspace, nor is one inside the other's.
fn are_nested(one: &Taken, other: &Taken) -> bool {
    let inside = |a: &Path, b: &Path| a.starts_with(b) || b.starts_with(a);
    match (&one.workspace, &other.workspace) {
        (Some(one), Some(other)) => inside(one, other),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn caps(total: u32) -> Caps {
        Caps { total, groups: BTreeMap::new(), models: BTreeMap::new(), accounts: BTreeMap::new() }
    }

    fn taken(model: Option<u8>, workspace: Option<u8>) -> Taken {
        Taken {
            model: model.map(|it| format!("m{it}")),
            workspace: workspace.map(|it| PathBuf::from(format!("/w/{it}"))),
        }
    }

    /// Starts whatever may start until nothing more may.
    fn fill(all: &[Taken], caps: &Caps) -> Vec<usize> {
        let mut started: Vec<usize> = Vec::new();
        loop {
            let under_way: Vec<&Taken> = started.iter().map(|it| &all[*it]).collect();
            let waiting = all.iter().enumerate().filter(|(it, _)| !started.contains(it));
            match next(waiting, &under_way, caps, "g", Some("a")) {
                Some(index) => started.push(index),
                None => return started,
            }
        }
    }

    #[test]
    fn caps_of_the_group_and_of_a_model_hold_and_order_is_kept() {
        let all = [taken(Some(1), None), taken(Some(1), None), taken(Some(2), None)];
        let mut some = caps(9);
        some.models.insert("m1".to_owned(), 1);
        assert_eq!(fill(&all, &some), [0, 2]);
        some.groups.insert("g".to_owned(), 1);
        assert_eq!(fill(&all, &some), [0]);
        some.accounts.insert("a".to_owned(), 0);
        assert_eq!(fill(&all, &some), [0; 0]);
    }

    proptest! {
        /// Never more than the caps, never two in one workspace, and nobody is left who could start.
        #[test]
        fn caps_hold_and_nobody_waits_for_nothing(
            all in vec((proptest::option::of(0u8..3), proptest::option::of(0u8..4)), 0..20),
            total in 0u32..8,
            cap_of_model in 0u32..4,
        ) {
            let all: Vec<Taken> = all.into_iter().map(|(model, place)| taken(model, place)).collect();
            let mut caps = caps(total);
            caps.models.insert("m1".to_owned(), cap_of_model);
            let started = fill(&all, &caps);
            prop_assert!(started.len() <= total as usize);
            let n_of_model = started.iter().filter(|it| all[**it].model.as_deref() == Some("m1")).count();
            prop_assert!(n_of_model <= cap_of_model as usize);
            for (position, one) in started.iter().enumerate() {
                for other in &started[..position] {
                    prop_assert!(!are_nested(&all[*one], &all[*other]));
                }
            }
            if started.len() < total as usize {
                for (index, wanted) in all.iter().enumerate().filter(|(it, _)| !started.contains(it)) {
                    let is_kept_back = started.iter().any(|it| are_nested(&all[*it], wanted))
                        || wanted.model.as_deref() == Some("m1");
                    prop_assert!(is_kept_back, "{index} could start");
                }
            }
        }
    }
}
