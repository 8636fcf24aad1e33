//! Going through the numbered rows of a table some of whose pages cannot be read.
//!
//! ```text
//! 1 ─── forward ───► ✗✗✗✗ · · · ✗✗ ◄─── back ─── n
//!                         └┬┘ islands between damaged pages are found by halving what is left
//! ```

use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Rows by number, from one after `after` to `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) after: i64,
    pub(crate) until: i64,
}

impl Rows {
    pub(crate) const ALL: Self = Self { after: i64::MIN, until: i64::MAX };

    fn is_empty(self) -> bool {
        self.after >= self.until
    }
}

/// Whether a scan came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scanned {
    Whole,
    /// Some rows lie in a damaged part of the file.
    InPart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Back,
}

impl Direction {
    /// As SQL calls it.
    pub(crate) fn order(self) -> &'static str {
        match self {
            Self::Forward => "ASC",
            Self::Back => "DESC",
        }
    }
}

/// How far rows could be read in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The row that was read last, if any was.
    pub(crate) last: Option<i64>,
    pub(crate) end: WayEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayEnd {
    Reached,
    /// Nobody wants more.
    Stopped,
    Damaged,
}

/// What a damaged page holds at most by far, so that the first look behind it is not too far.
const NEAR: i64 = 64;
/// How many ways are tried in each of the distances, which double. A page of rows is lost if there are very many damaged
/// ones around it.
const MAX_WAYS: usize = 256;
/// In all distances together: where the end of the table is damaged, there is no end to them.
const MAX_WAYS_IN_ALL: usize = 1_024;

/// Reads all rows that can be read, each once, by `walk`: which reads in one direction until the end, or until damage.
pub(crate) fn visit_around_damage<E>(
    rows: Rows,
    walk: &mut dyn FnMut(Rows, Direction) -> Result<Way, E>,
) -> Result<Scanned, E> {
    let forward = walk(rows, Direction::Forward)?;
    if forward.end != WayEnd::Damaged {
        return Ok(Scanned::Whole);
    }
    let mut rest = Rows { after: forward.last.unwrap_or(rows.after), ..rows };
    let back = walk(rest, Direction::Back)?;
    if back.end == WayEnd::Damaged {
        rest.until = back.last.map_or(rest.until, |first| first.saturating_sub(1));
        // No table of Cursor's has rows below zero.
        rest.after = rest.after.max(0);
        visit_islands(rest, walk)?;
    }
    Ok(Scanned::InPart)
}

/// Finds out which rows can be read, by a `walk` that reads nothing of them but their numbers.
pub(crate) fn find_islands<E>(
    walk: &mut dyn FnMut(Rows, Direction) -> Result<Way, E>,
) -> Result<Vec<Rows>, E> {
    let mut islands = Vec::new();
    visit_around_damage(Rows::ALL, &mut |rows, direction| {
        let way = walk(rows, direction)?;
        let island = match (way.end, way.last, direction) {
            (WayEnd::Reached, ..) => rows,
            (_, None, _) => return Ok(way),
            (_, Some(last), Direction::Forward) => Rows { until: last, ..rows },
            (_, Some(first), Direction::Back) => Rows { after: first.saturating_sub(1), ..rows },
        };
        islands.push(island);
        Ok(way)
    })?;
    islands.sort_unstable_by_key(|island| island.after);
    Ok(islands)
}

/// Looks behind the damage, near first: where the last page is damaged nobody knows how far the rows go.
fn visit_islands<E>(
    rows: Rows,
    walk: &mut dyn FnMut(Rows, Direction) -> Result<Way, E>,
) -> Result<(), E> {
    let mut rest = rows;
    let mut width = NEAR;
    let mut n_ways = 0;
    while !rest.is_empty() && n_ways < MAX_WAYS_IN_ALL {
        let until = rest.after.saturating_add(width).min(rest.until);
        if visit_between(Rows { until, ..rest }, &mut n_ways, walk)?.is_break() {
            break;
        }
        rest.after = until;
        width = width.saturating_mul(2);
    }
    Ok(())
}

fn visit_between<E>(
    rows: Rows,
    n_ways: &mut usize,
    walk: &mut dyn FnMut(Rows, Direction) -> Result<Way, E>,
) -> Result<ControlFlow<()>, E> {
    let mut open = VecDeque::from([rows]);
    let most = *n_ways + MAX_WAYS;
    while let Some(mut rows) = open.pop_front()
        && *n_ways < most
    {
        for direction in [Direction::Forward, Direction::Back] {
            if rows.is_empty() {
                break;
            }
            *n_ways += 1;
            let way = walk(rows, direction)?;
            match (way.end, direction) {
                (WayEnd::Stopped, _) => return Ok(ControlFlow::Break(())),
                (WayEnd::Reached, _) => rows.after = rows.until,
                (WayEnd::Damaged, Direction::Forward) => {
                    rows.after = way.last.unwrap_or(rows.after)
                }
                (WayEnd::Damaged, Direction::Back) => {
                    rows.until = way.last.map_or(rows.until, |first| first.saturating_sub(1))
                }
            }
        }
        let width = rows.until.saturating_sub(rows.after);
        if width > 1 {
            let middle = rows.after.saturating_add(width / 2);
            open.push_back(Rows { until: middle, ..rows });
            open.push_back(Rows { after: middle, ..rows });
        }
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// A table of pages of some rows each, of which some are damaged.
    struct Pages {
        n_rows: i64,
        rows_per_page: i64,
        damaged: Vec<bool>,
    }

    impl Pages {
        /// The page in which a row is, or would be.
        fn is_damaged(&self, row: i64) -> bool {
            let n_pages = (self.n_rows - 1) / self.rows_per_page + 1;
            let page = ((row.max(1) - 1) / self.rows_per_page).min(n_pages - 1);
            self.damaged.get(usize::try_from(page).unwrap()).copied().unwrap_or(false)
        }

        fn walk(&self, rows: Rows, direction: Direction, read: &mut Vec<i64>) -> Way {
            let first = rows.after.max(0).saturating_add(1);
            let last = rows.until.min(self.n_rows);
            let mut way = Way { last: None, end: WayEnd::Damaged };
            let sought = if direction == Direction::Forward { rows.after } else { rows.until };
            if self.is_damaged(sought) {
                return way;
            }
            let mut numbers: Vec<i64> = (first..=last).collect();
            if direction == Direction::Back {
                numbers.reverse();
            }
            for row in numbers {
                if self.is_damaged(row) {
                    return way;
                }
                read.push(row);
                way.last = Some(row);
            }
            Way { end: WayEnd::Reached, ..way }
        }
    }

    proptest! {
        #[test]
        fn every_row_of_a_good_page_is_read_once(
            n_rows in 1_i64..1_000,
            rows_per_page in 16_i64..60,
            damaged in prop::collection::vec(any::<bool>(), 0..70),
        ) {
            let pages = Pages { n_rows, rows_per_page, damaged };
            let mut read = Vec::new();
            let scanned = visit_around_damage(Rows::ALL, &mut |rows, direction| {
                Ok::<Way, Infallible>(pages.walk(rows, direction, &mut read))
            }).unwrap();
            read.sort_unstable();
            let expected: Vec<i64> = (1..=n_rows).filter(|row| !pages.is_damaged(*row)).collect();
            let is_whole = expected.len() as i64 == n_rows;
            prop_assert_eq!(&read, &expected);
            prop_assert_eq!(scanned == Scanned::Whole, is_whole);

            // The islands are where the rows are, and nowhere else.
            let islands = find_islands(&mut |rows, direction| {
                Ok::<Way, Infallible>(pages.walk(rows, direction, &mut Vec::new()))
            }).unwrap();
            let is_on_island = |row: &i64| {
                islands.iter().filter(|island| island.after < *row && *row <= island.until).count()
            };
            for row in 1..=n_rows {
                prop_assert_eq!(is_on_island(&row), usize::from(!pages.is_damaged(row)));
            }
        }
    }

    #[test]
    fn nothing_is_read_after_nobody_wants_more() {
        let pages =
            Pages { n_rows: 100, rows_per_page: 10, damaged: vec![false, true, false, true] };
        let mut n_walks = 0;
        let mut read = Vec::new();
        visit_around_damage(Rows::ALL, &mut |rows, direction| {
            n_walks += 1;
            let way = pages.walk(rows, direction, &mut read);
            let is_behind = way.last.is_some() && way.last != Some(10);
            Ok::<Way, Infallible>(Way {
                end: if is_behind { WayEnd::Stopped } else { way.end },
                ..way
            })
        })
        .unwrap();
        assert_eq!(n_walks, 2, "{read:?}");
    }
}
