use super::{Timings, timed_test, total};

#[test]
fn times_of_tests_and_binaries_are_read_from_the_harness_output() {
    let mut timings = Timings::default();
    for line in [
        "     Running unittests src/lib.rs (target/debug/deps/run_journal-0f1e2d3c4b5a6978)",
        "running 2 tests",
        "test reader::a_torn_line_is_kept ... ok <0.250s>",
        "test reader::an_empty_file_is_empty ... FAILED <1.500s>",
        "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.75s",
        "     Running suite/main.rs (target/debug/deps/suite-1122334455667788)",
        "test runs::a_run_ends ... ok <3.000s>",
        "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 3.01s",
    ] {
        timings.take(line);
    }
    let expected = "\
test binary                   tests   seconds
suite                             1       3.0
run_journal                       2       1.8

  seconds  slowest tests
      3.0  suite: runs::a_run_ends
      1.5  run_journal: reader::an_empty_file_is_empty
      0.2  run_journal: reader::a_torn_line_is_kept";
    assert_eq!(timings.table().as_deref(), Some(expected));
}

#[test]
fn lines_that_only_look_like_results_are_skipped() {
    assert_eq!(timed_test("test a::b ... ok"), None);
    assert_eq!(timed_test("the test took <3.0s>"), None);
    assert_eq!(total("test result: ok. 1 passed"), None);
    assert!(Timings::default().table().is_none());
}
