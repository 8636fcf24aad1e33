//! `caretaker sessions stores`: lists stores, and where Caretaker looked for them.

use std::io::Write;

use admission::command_error::CommandError;
use admission::words::safe_text::on_one_line;
use admission::words::units::{counted, grouped};
use cursor_stores::model::StoreKind;
use cursor_stores::{Account, Catalogue, ConversationStore, OtherPlace, SkippedPlace, Treatment};
use run_protocol::{BytesPath, ExitCode};
use serde::Serialize;
use serde_json::json;

use super::selection::Where;
use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_view};
use crate::view::styled_line::{BOLD, DIM, ODD, PLAIN, write_line};
use crate::view::width::Width;

/// List the stores on this machine and their contents, and what Caretaker skipped and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Where,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// One store and its contents.
#[derive(Serialize)]
struct Counted {
    store: StoreKind,
    path: BytesPath,
    #[serde(flatten)]
    account: Account,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.place.open(host)?;
    let stores: Vec<Counted> = catalogue.stores().map(Counted::of).collect();
    if args.json {
        let absent = catalogue.absent().iter().map(|path| BytesPath::from(path.as_path()));
        return print_json(&json!({
            "v": 1,
            "stores": stores,
            "skipped": catalogue.skipped(),
            "others": catalogue.others(),
            "absent": absent.collect::<Vec<_>>(),
        }));
    }
    print_view(|out| write(out, &stores, &catalogue, Width::of_stdout()))
}

impl Counted {
    fn of(store: &dyn ConversationStore) -> Self {
        Self { store: store.kind(), path: store.path().into(), account: store.account() }
    }
}

fn write(
    out: &mut dyn Write,
    stores: &[Counted],
    catalogue: &Catalogue,
    width: Width,
) -> std::io::Result<()> {
    for Counted { store, path, account } in stores {
        let path = path.0.display().to_string();
        let n = counted(account.n_conversations, "conversation", "conversations");
        let pieces = [
            (BOLD, format!("{store:<10} ")),
            (PLAIN, on_one_line(&path).into_owned()),
            (PLAIN, format!("  {n}")),
        ];
        line(out, &pieces, width)?;
        for (what, n_hidden) in &account.n_hidden {
            // Deleted conversations leave only their keys.
            let how = if what == "deleted" { "" } else { " (see --all)" };
            line(out, &[(DIM, format!("    and {} {what}{how}", grouped(*n_hidden)))], width)?;
        }
        for family in &account.families {
            let treatment = match family.treatment {
                Treatment::Read => "read",
                Treatment::Counted => "counted, not read",
                Treatment::NeverRead => "never read",
            };
            let text = format!(
                "    {:>9}  {}  ({treatment})",
                grouped(family.n_rows),
                on_one_line(&family.name)
            );
            line(out, &[(DIM, text)], width)?;
        }
        for damage in &account.damage {
            let text = format!("    ! {}: {}", damage.place, damage.what);
            line(out, &[(ODD, on_one_line(&text).into_owned())], width)?;
        }
        if let Some(backup) = &account.backup {
            let text = format!("    Cursor's backup: {}", backup.0.display());
            line(out, &[(DIM, on_one_line(&text).into_owned())], width)?;
        }
    }
    for SkippedPlace { store, path, why } in catalogue.skipped() {
        let text = format!("{store:<10} {}  skipped: {why}", path.0.display());
        line(out, &[(ODD, on_one_line(&text).into_owned())], width)?;
    }
    if stores.is_empty() && catalogue.skipped().is_empty() {
        line(out, &[(PLAIN, "no stores".to_owned())], width)?;
    }
    for OtherPlace { path, what } in catalogue.others() {
        let text = format!("other      {}  {what}", path.0.display());
        line(out, &[(DIM, on_one_line(&text).into_owned())], width)?;
    }
    for path in catalogue.absent() {
        let text = format!("missing    {}", path.display());
        line(out, &[(DIM, on_one_line(&text).into_owned())], width)?;
    }
    Ok(())
}

fn line(
    out: &mut dyn Write,
    pieces: &[(anstyle::Style, String)],
    width: Width,
) -> std::io::Result<()> {
    let pieces: Vec<_> = pieces.iter().map(|(style, text)| (*style, text.as_str())).collect();
    write_line(out, &pieces, width)
}
