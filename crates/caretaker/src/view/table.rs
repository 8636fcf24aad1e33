//! A plain table: one line per row, cut to the width of the terminal.

use admission::words::safe_text::on_one_line;
use comfy_table::{ContentArrangement, Row, Table, presets};

use super::width::Width;

/// Lays out rows under a header. Passes the cells through `safe_text`.
pub(crate) fn table<R: AsRef<[String]>>(
    header: &[&str],
    rows: impl IntoIterator<Item = R>,
    width: Width,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_truncation_indicator("…").force_no_tty();
    match width {
        Width::Unlimited => table.set_content_arrangement(ContentArrangement::Disabled),
        Width::Columns(columns) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(columns).unwrap_or(u16::MAX)),
    };
    let mut names = Row::from(header.iter().copied());
    names.max_height(1);
    table.set_header(names);
    for cells in rows {
        let mut row = Row::from(cells.as_ref().iter().map(|cell| on_one_line(cell).into_owned()));
        row.max_height(1);
        table.add_row(row);
    }
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
    table.trim_fmt()
}
