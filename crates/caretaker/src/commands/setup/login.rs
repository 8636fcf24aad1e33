//! `caretaker login`: lists and restores logins that agents replaced.

use admission::command_error::{CommandError, OrFail};
use admission::host::{Host, short_id};
use admission::words::talk::{note, say};
use admission::words::units;
use clap::Subcommand;
use ground::now_ms;
use run_protocol::ExitCode;
use run_shim::{KeptLogin, LoginOrigin, kept_logins, restore_login};
use serde_json::{Value, json};

use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_table};

/// List the logins that agents replaced in your login file, and restore one.
///
/// An agent that works with your login file may renew the login shortly before it expires. Caretaker then keeps the old
/// logins: the last three, and always the latest one that no agent made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker login ls
  caretaker login restore                the latest login that no agent made
  caretaker login restore 5b1c7f0e")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Print one JSON object per login.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the kept logins, latest first. No token is shown.
    Ls,
    /// Put a kept login back into your login file, and keep the current one.
    Restore {
        /// The login, or a unique prefix of its id. The default is the latest one that no agent made.
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    match &args.action {
        Action::Ls => list(host, args.json),
        Action::Restore { id } => restore(host, id.as_deref(), args.json),
    }
}

fn list(host: &Host, is_json: bool) -> Result<ExitCode, CommandError> {
    let kept = kept_logins(&host.state).or_fail(|| "cannot read the kept logins")?;
    if is_json {
        for login in &kept {
            print_json(&listed(login))?;
        }
        return Ok(ExitCode::Success);
    }
    if kept.is_empty() {
        note("no kept logins: no agent has replaced yours");
        return Ok(ExitCode::Success);
    }
    let now = now_ms();
    let rows = kept.iter().map(|login| {
        let by = match login.by {
            LoginOrigin::User => "you",
            LoginOrigin::Agent => "an agent",
        };
        let replaced_by = login.replaced_by.map_or("restore".to_owned(), short_id);
        [
            login.id.clone(),
            units::age(now.saturating_sub(login.kept_ms)),
            by.to_owned(),
            replaced_by,
            login.account().unwrap_or_default(),
            login.expires_ms().map_or(String::new(), |expires| expiry(expires, now)),
            login.file.0.display().to_string(),
        ]
    });
    let header = ["ID", "KEPT", "MADE BY", "REPLACED BY", "ACCOUNT", "EXPIRES", "FILE"];
    print_table(&header, rows)
}

fn expiry(expires_ms: u64, now_ms: u64) -> String {
    match expires_ms.checked_sub(now_ms) {
        Some(left) => format!("in {}", units::age(left)),
        None => "expired".to_owned(),
    }
}

/// A kept login without its tokens.
fn listed(login: &KeptLogin) -> Value {
    json!({
        "v": 1,
        "id": login.id,
        "kept_ms": login.kept_ms,
        "by": login.by,
        "replaced_by": login.replaced_by,
        "account": login.account(),
        "expires_ms": login.expires_ms(),
        "file": login.file,
    })
}

fn restore(host: &Host, id: Option<&str>, is_json: bool) -> Result<ExitCode, CommandError> {
    let restored = restore_login(&host.state, id)?;
    let login = restored.login;
    if is_json {
        return print_json(&json!({
            "v": 1, "restored": login.id, "kept": restored.kept, "file": login.file,
        }));
    }
    say(&format!("restored login {} in {}", login.id, login.file.0.display()));
    if let Some(kept) = restored.kept {
        say(&format!("to go back to the previous login: caretaker login restore {kept}"));
    }
    Ok(ExitCode::Success)
}
