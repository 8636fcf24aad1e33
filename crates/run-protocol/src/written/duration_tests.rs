use super::*;

#[test]
fn the_usual_ways_to_write_a_duration_are_read() {
    for (text, milliseconds) in [
        ("20m", 1_200_000),
        ("1h30m", 5_400_000),
        ("1h 30m", 5_400_000),
        ("90s", 90_000),
        ("500ms", 500),
        ("2 hours", 7_200_000),
        ("1.5s", 1_500),
        ("none", 0),
        ("0", 0),
        ("0s", 0),
    ] {
        let duration: HumanDuration = text.parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(duration.milliseconds(), milliseconds, "{text}");
    }
}

#[test]
fn a_number_without_a_unit_and_nonsense_are_refused() {
    for text in ["", "20", "-5s", "5 parsecs", "1mo", "100ns", "m", "never"] {
        assert!(text.parse::<HumanDuration>().is_err(), "{text}");
    }
}
