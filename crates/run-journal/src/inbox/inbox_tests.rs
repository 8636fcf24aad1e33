use std::io::Write;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use run_protocol::{QuestionAbout, Relation};

use super::*;

fn inbox() -> (tempfile::TempDir, Inbox) {
    let directory = tempfile::tempdir().unwrap();
    let state = StateRoot::new(directory.path().to_owned());
    let inbox = Inbox::of(&state, Uuid::from_u128(7));
    (directory, inbox)
}

fn message(id: &str) -> Message {
    let run = "01941f29-7c00-7000-8000-000000000001".parse().unwrap();
    let from = MessageSender::Agent { run, name: None, relation: Relation::Child };
    Message { id: id.to_owned(), at: 1, from, text: format!("text of {id}"), answers: None }
}

fn question(id: &str) -> Question {
    Question {
        id: id.to_owned(),
        at: 1,
        run: RunId::generate(),
        about: QuestionAbout::Work,
        text: "which?".to_owned(),
        options: Vec::new(),
        host: None,
    }
}

fn ids(messages: &[Message]) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_str()).collect()
}

#[test]
fn a_message_is_posted_once_offered_once_per_run_and_never_again_after_delivery() {
    let (_directory, inbox) = inbox();
    assert!(inbox.post(message("a")).unwrap());
    assert!(!inbox.post(message("a")).unwrap(), "the inbox accepts each id once");
    assert!(inbox.post(message("b")).unwrap());
    let (first, second) = (RunId::generate(), RunId::generate());
    let by = HandOver::CheckInbox;
    assert_eq!(ids(&inbox.offer(first, by, 1, 1000).unwrap()), ["a"]);
    assert_eq!(ids(&inbox.offer(first, by, 9, 1000).unwrap()), ["b"]);
    assert!(inbox.offer(first, by, 9, 1000).unwrap().is_empty());
    // There is no such run, so it counts as ended, and its agent may or may not have read the message.
    assert_eq!(ids(&inbox.confirm(first, by, &["a".to_owned()]).unwrap()), ["a"]);
    assert!(inbox.confirm(first, by, &["a".to_owned()]).unwrap().is_empty());
    assert_eq!(ids(&inbox.offer(second, by, 9, 1000).unwrap()), ["b"]);
    inbox.confirm(second, by, &["b".to_owned()]).unwrap();
    assert!(inbox.offer(RunId::generate(), by, 9, 1000).unwrap().is_empty());
    assert_eq!(inbox.read().unwrap().undelivered().count(), 0);
}

#[test]
fn a_turn_takes_all_of_its_messages_or_none() {
    let (_directory, inbox) = inbox();
    inbox.post(message("a")).unwrap();
    inbox.post(message("b")).unwrap();
    let (turn, other) = (RunId::generate(), RunId::generate());
    inbox.offer(other, HandOver::CheckInbox, 1, 1000).unwrap();
    inbox.confirm(other, HandOver::CheckInbox, &["a".to_owned()]).unwrap();
    let both = ["a".to_owned(), "b".to_owned()];
    assert_eq!(inbox.offer_as_turn(turn, &both).unwrap(), None);
    assert_eq!(inbox.offer_as_turn(turn, &both[1..]).unwrap().map(|taken| taken.len()), Some(1));
}

#[test]
fn a_question_is_answered_once_and_only_a_few_may_be_open() {
    let (_directory, inbox) = inbox();
    for id in ["q-1", "q-2", "q-3"] {
        inbox.ask(question(id), 3).unwrap();
    }
    assert!(matches!(inbox.ask(question("q-4"), 3), Err(InboxError::TooManyQuestions(3))));
    inbox.answer("q-2", "this one".to_owned()).unwrap();
    assert!(matches!(inbox.answer("q-2", String::new()), Err(InboxError::Answered(_))));
    assert!(matches!(inbox.answer("q-9", String::new()), Err(InboxError::NoSuchQuestion(_))));
    let known = inbox.read().unwrap();
    let open: Vec<&str> = known.open_questions().map(|question| question.id.as_str()).collect();
    assert_eq!(open, ["q-1", "q-3"]);
    assert_eq!(known.undelivered().next().unwrap().answers.as_deref(), Some("q-2"));
    inbox.ask(question("q-4"), 3).unwrap();
}

#[test]
fn a_torn_line_is_ignored_and_the_next_writer_removes_it() {
    let (_directory, inbox) = inbox();
    inbox.post(message("a")).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&inbox.path).unwrap();
    file.write_all(br#"{"kind":"posted","id":"b","#).unwrap();
    assert_eq!(inbox.read().unwrap().undelivered().count(), 1);
    inbox.post(message("c")).unwrap();
    let text = fs::read_to_string(&inbox.path).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    file.write_all(b"{\"kind\":\"of a newer version\"}\n\xff\n").unwrap();
    let run = RunId::generate();
    let taken = inbox.offer(run, HandOver::CheckInbox, 9, 1000).unwrap();
    assert_eq!(ids(&taken), ["a", "c"]);
}

#[test]
fn a_full_inbox_refuses_new_messages_and_still_delivers_those_it_has() {
    let (_directory, inbox) = inbox();
    let run = RunId::generate();
    for number in 0..MOST_WAITING {
        inbox.post(message(&number.to_string())).unwrap();
    }
    assert!(matches!(inbox.post(message("more")), Err(InboxError::Full)));
    let taken = inbox.offer(run, HandOver::CheckInbox, MOST_WAITING, usize::MAX).unwrap();
    assert_eq!(taken.len(), MOST_WAITING);
    let all: Vec<String> = taken.into_iter().map(|message| message.id).collect();
    inbox.confirm(run, HandOver::CheckInbox, &all).unwrap();
    assert!(inbox.post(message("more")).unwrap());
}

#[test]
fn concurrent_writers_lose_nothing() {
    let (_directory, inbox) = inbox();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let inbox = &inbox;
            scope.spawn(move || {
                for number in 0..20 {
                    inbox.post(message(&format!("{writer}-{number}"))).unwrap();
                }
            });
        }
    });
    assert_eq!(inbox.read().unwrap().undelivered().count(), 80);
    assert_eq!(Inbox::all(&inbox.state).unwrap().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Each run may die before or after its agent has the messages. The inbox offers unconfirmed messages again, but
    /// never a confirmed one.
    #[test]
    fn no_death_of_a_run_loses_a_message_or_repeats_a_confirmed_one(
        runs in prop::collection::vec((1..4_usize, prop::bool::ANY), 1..12),
    ) {
        let (_directory, inbox) = inbox();
        for number in 0..8 {
            inbox.post(message(&number.to_string())).unwrap();
        }
        let mut confirmed: Vec<String> = Vec::new();
        for (most, lives) in runs {
            let run = RunId::generate();
            let taken = inbox.offer(run, HandOver::CheckInbox, most, usize::MAX).unwrap();
            prop_assert!(taken.iter().all(|message| !confirmed.contains(&message.id)));
            prop_assert_eq!(taken.len(), most.min(8 - confirmed.len()));
            if lives {
                let ids: Vec<String> = taken.into_iter().map(|message| message.id).collect();
                inbox.confirm(run, HandOver::CheckInbox, &ids).unwrap();
                confirmed.extend(ids);
            }
        }
        prop_assert_eq!(inbox.read().unwrap().undelivered().count(), 8 - confirmed.len());
    }
}
