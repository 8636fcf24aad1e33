use super::*;

#[test]
fn one_task_handles_the_occasions_of_a_run_in_their_order() {
    let run = RunId::generate();
    let occasion = |transition| Occasion { run, transition, question: None };
    let lines = Lines::default();
    assert!(lines.add(run, vec![occasion(Transition::Started)]));
    assert_eq!(lines.next(run), Some(occasion(Transition::Started)));
    // More occasions come while a task handles the first: the same task handles them.
    assert!(!lines.add(run, vec![occasion(Transition::NeedsHuman)]));
    assert!(!lines.add(run, vec![occasion(Transition::Ended)]));
    assert_eq!(lines.next(run), Some(occasion(Transition::NeedsHuman)));
    assert_eq!(lines.next(run), Some(occasion(Transition::Ended)));
    assert_eq!(lines.next(run), None);
    assert!(lines.add(run, vec![occasion(Transition::Ended)]));
}
