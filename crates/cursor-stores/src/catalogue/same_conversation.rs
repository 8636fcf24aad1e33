//! Decides which heads with the same id are the same conversation.
//!
//! The ids of the command line, the IDE and ACP are unique. The SDK lets its caller choose an id, which is unique only
//! within one workspace. Two SDK stores may use one id for two conversations. They are the same conversation only if
//! their contents agree.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

use crate::model::{Head, Origin, StoreKind};

/// Finds the head that belongs to the same conversation, among the heads with the same id.
pub(crate) fn place_of(head: &Head, heads: &[Head], of_same_id: &[usize]) -> Option<usize> {
    let mut places = of_same_id.iter().copied();
    if is_of_sdk(head) {
        return places.find(|place| agree(&heads[*place], head));
    }
    // A transcript is next to the store of its conversation.
    let projects: Vec<&Path> = head.origins.iter().filter_map(project).collect();
    let is_beside = |place: &usize| {
        let mut others = heads[*place].origins.iter().filter_map(project);
        others.any(|other| projects.contains(&other))
    };
    places.clone().find(is_beside).or_else(|| places.next())
}

fn is_of_sdk(head: &Head) -> bool {
    head.origins.iter().any(|origin| origin.store == StoreKind::Sdk)
}

/// True if nothing in one head contradicts the other. Unknown fields contradict nothing.
fn agree(one: &Head, other: &Head) -> bool {
    one.lineage.iter().all(|(turn, run)| other.lineage.get(turn).is_none_or(|other| other == run))
}

/// True if two heads, read at different times, belong to one conversation, even if its store moved in between.
#[must_use]
pub fn is_same_conversation(one: &Head, other: &Head) -> bool {
    let name = |head: &Head| {
        head.origins.first().map(|origin| (origin.store, origin.key(head).to_owned()))
    };
    name(one) == name(other) && agree(one, other)
}

/// Returns the project directory that holds an SDK store or a transcript.
fn project(origin: &Origin) -> Option<&Path> {
    let directory = match origin.store {
        StoreKind::Sdk => "sdk-agent-store",
        StoreKind::Transcript => "agent-transcripts",
        _ => return None,
    };
    let path: &Path = origin.path.as_ref();
    path.ancestors().find(|path| path.file_name() == Some(OsStr::new(directory)))?.parent()
}

/// If several conversations share an id, the oldest keeps it, and the others get new ids. The oldest stays the oldest
/// when another one is continued, so the ids are stable.
pub(crate) fn tell_apart(heads: &mut [Head], places: &HashMap<String, Vec<usize>>) {
    let mut taken: HashSet<String> = heads.iter().map(|head| head.id.clone()).collect();
    for of_same_id in places.values().filter(|places| places.len() > 1) {
        let mut by_age = of_same_id.clone();
        by_age.sort_by_key(|place| {
            let head = &heads[*place];
            let created_ms = head.created.map_or(i64::MAX, |at| at.at_ms);
            (created_ms, head.origins.first().map(|origin| origin.path.clone()))
        });
        for place in by_age.into_iter().skip(1) {
            let head = &mut heads[place];
            let id = other_id(head, &taken);
            for origin in &mut head.origins {
                origin.key.get_or_insert_with(|| head.id.clone());
            }
            taken.insert(id.clone());
            head.id = id;
        }
    }
}

/// Returns `ID@` and the beginning of the store's directory name, with a number if that is taken.
fn other_id(head: &Head, taken: &HashSet<String>) -> String {
    let directories = head.origins.iter().filter_map(sdk_directory);
    let short: String = directories.take(1).flat_map(|name| name.chars().take(8)).collect();
    let id = format!("{}@{short}", head.id);
    let numbered = (2..).map(|number| format!("{id}-{number}"));
    std::iter::once(id.clone()).chain(numbered).find(|id| !taken.contains(id)).unwrap_or(id)
}

/// Returns the directory name of an SDK store: a hash of its workspace.
#[must_use]
pub fn sdk_directory(origin: &Origin) -> Option<&str> {
    let path: &Path = origin.path.as_ref();
    let directory = path.parent().filter(|_| origin.store == StoreKind::Sdk)?;
    directory.file_name()?.to_str()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn head(store: StoreKind, path: &str, runs: &[&str]) -> Head {
        let mut head = Head::new("id", Origin { store, path: path.into(), key: None });
        head.lineage = (1..).zip(runs.iter().map(|run| (*run).to_owned())).collect();
        head
    }

    #[test]
    fn a_transcript_belongs_to_the_conversation_of_its_project() {
        let sdk = |project: &str, run: &str| {
            head(StoreKind::Sdk, &format!("/p/{project}/sdk-agent-store/aa/index.db"), &[run])
        };
        let heads = [sdk("one", "a"), sdk("two", "b")];
        let transcript = |project: &str| {
            head(StoreKind::Transcript, &format!("/p/{project}/agent-transcripts/id.jsonl"), &[])
        };
        assert_eq!(place_of(&transcript("two"), &heads, &[0, 1]), Some(1));
        assert_eq!(place_of(&transcript("three"), &heads, &[0, 1]), Some(0));
        assert_eq!(place_of(&sdk("three", "b"), &heads, &[0, 1]), Some(1), "a copy");
        assert_eq!(place_of(&sdk("three", "c"), &heads, &[0, 1]), None);
    }

    #[test]
    fn different_conversations_with_the_same_id_get_different_ids() {
        let at = |directory: &str| head(StoreKind::Sdk, &format!("/s/{directory}/index.db"), &[]);
        let mut heads = [at("same-name-1"), at("same-name-2"), at("same-name-3")];
        tell_apart(&mut heads, &HashMap::from([("id".to_owned(), vec![0, 1, 2])]));
        let ids: Vec<&str> = heads.iter().map(|head| head.id.as_str()).collect();
        assert_eq!(ids, ["id", "id@same-nam", "id@same-nam-2"]);
        assert!(heads.iter().all(|head| head.origins[0].key(head) == "id"));
    }

    proptest! {
        #[test]
        fn agreement_does_not_depend_on_the_order(
            one in prop::collection::btree_map(0_i64..4, "[ab]", 0..4),
            other in prop::collection::btree_map(0_i64..4, "[ab]", 0..4),
        ) {
            let head = |lineage| Head { lineage, ..head(StoreKind::Sdk, "/s/a/index.db", &[]) };
            let (one, other) = (head(one), head(other));
            prop_assert_eq!(agree(&one, &other), agree(&other, &one));
            prop_assert!(agree(&one, &one));
        }
    }
}
