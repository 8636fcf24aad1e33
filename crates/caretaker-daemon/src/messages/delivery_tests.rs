use pretty_assertions::assert_eq;
use run_protocol::RunId;

use super::*;

#[test]
fn a_session_without_a_run_to_continue_is_not_woken() {
    let message = Message {
        id: "m".to_owned(),
        at: 1,
        from: MessageSender::Person,
        text: "hello".to_owned(),
        answers: None,
    };
    let of_child = MessageSender::End { run: RunId::generate(), name: None };
    let news = Message { from: of_child, ..message.clone() };
    let unknown = SessionStanding { is_underway: false, latest: None };
    assert_eq!(unknown.delivery(&[&message, &news]), Delivery::OnResume);
    let busy = SessionStanding { is_underway: true, latest: None };
    assert_eq!(busy.delivery(&[&message]), Delivery::CheckInbox);
}
