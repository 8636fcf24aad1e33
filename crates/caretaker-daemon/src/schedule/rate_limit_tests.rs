use super::*;

#[test]
fn a_refusal_halves_the_cap_and_time_restores_it_one_by_one() {
    let once = Lowered::after_refusal(None, 8, 500, 1_000, 500);
    assert_eq!((once.cap(8, 1_000), once.pause_until_ms()), (4, 11_000));
    assert_eq!(once.cap(8, 61_000), 5);
    assert_eq!(once.next_raise_ms(61_000), 121_000);
    assert!(!once.is_over(8, 200_000));
    assert!(once.is_over(8, 241_000));
    let twice = Lowered::after_refusal(Some(once), 8, 20_000, 61_000, 500);
    assert_eq!((twice.cap(8, 61_000), twice.pause_until_ms()), (2, 81_000));
}

#[test]
fn runs_of_one_wave_lower_the_cap_only_once_and_it_never_falls_below_one() {
    let once = Lowered::after_refusal(None, 8, 500, 1_000, 0);
    assert_eq!(Lowered::after_refusal(Some(once), 8, 900, 1_005, 0), once);
    let mut lowered = once;
    for round in 1..20 {
        let now = 1_000 + round * 10;
        lowered = Lowered::after_refusal(Some(lowered), 8, now - 1, now, 1000);
    }
    assert_eq!(lowered.cap(8, 1_200), 1);
    assert!(lowered.pause_until_ms() <= 1_200 + LONGEST_PAUSE_MS * 3 / 2);
}

#[test]
fn a_smaller_cap_from_the_user_holds() {
    let once = Lowered::after_refusal(None, 8, 500, 1_000, 0);
    assert_eq!(once.cap(2, 1_000), 2);
}
