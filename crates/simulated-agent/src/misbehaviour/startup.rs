//! What goes wrong before the first line of output.

use std::thread;

use crate::children::LONGEST_LIFE;
use crate::cli_config;
use crate::ending::Ending;
use crate::failures::NOT_LOGGED_IN;
use crate::models;
use crate::preflight::Startup;

pub(super) fn not_logged_in(_: &Startup<'_>) -> Ending {
    Ending::failure(NOT_LOGGED_IN)
}

pub(super) fn hang(_: &Startup<'_>) -> Ending {
    thread::sleep(LONGEST_LIFE);
    Ending::failure(NOT_LOGGED_IN)
}

pub(super) fn config_race(startup: &Startup<'_>) -> Ending {
    cli_config::lost_race(&startup.roots.cli_config())
}

pub(super) fn refuse_model(startup: &Startup<'_>) -> Ending {
    Ending::failure(models::refusal(startup.options.value("model").unwrap_or(models::DEFAULT)))
}
