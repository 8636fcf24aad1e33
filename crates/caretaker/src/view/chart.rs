//! Small charts made of block characters.

const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar whose length shows `value` in relation to `most`; any value above zero is visible.
pub(crate) fn bar(value: u64, most: u64, columns: usize) -> String {
    if value == 0 || most == 0 || columns == 0 {
        return String::new();
    }
    let all = columns as u128 * 8;
    let eighths = (u128::from(value.min(most)) * all / u128::from(most)).max(1);
    let whole = usize::try_from(eighths / 8).unwrap_or(columns);
    let mut bar = "█".repeat(whole);
    if let Some(rest) = usize::try_from(eighths % 8).ok().filter(|rest| *rest > 0) {
        bar.push(EIGHTHS[rest - 1]);
    }
    bar
}

/// One character per value, its height in relation to the highest; a dot for zero.
pub(crate) fn sparkline(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0);
    let level = |value: u64| match value {
        0 => '·',
        value => {
            let level = (u128::from(value) * 8).div_ceil(u128::from(most.max(1))).clamp(1, 8);
            LEVELS[usize::try_from(level).unwrap_or(1) - 1]
        }
    };
    values.iter().map(|value| level(*value)).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use crate::view::width::columns;

    #[test]
    fn bars_and_sparklines_show_proportions() {
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 4), "██");
        assert_eq!(bar(1, 16, 2), "▏");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!((bar(0, 10, 4), bar(1, 0, 4)), (String::new(), String::new()));
        assert_eq!(sparkline(&[0, 1, 4, 8]), "·▁▄█");
        assert_eq!(sparkline(&[]), "");
    }

    proptest! {
        #[test]
        fn a_bar_fits_its_room_and_a_sparkline_has_one_character_per_value(
            values in proptest::collection::vec(any::<u64>(), 0..20), most: u64, room in 0usize..50,
        ) {
            for value in &values {
                prop_assert!(columns(&bar(*value, most, room)) <= room);
            }
            prop_assert_eq!(sparkline(&values).chars().count(), values.len());
        }
    }
}
