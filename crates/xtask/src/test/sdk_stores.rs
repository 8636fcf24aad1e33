//! Lets Cursor's own SDK write stores, without a key and without network, and reads them.

use super::tools::{SDK_VERSIONS, Tools};
use crate::commands;

pub(super) fn read(tools: &Tools) -> anyhow::Result<()> {
    let stores = tools.root().join("sdk-stores");
    if stores.exists() {
        std::fs::remove_dir_all(&stores)?;
    }
    for version in SDK_VERSIONS {
        let place = stores.join(version);
        std::fs::create_dir_all(&place)?;
        let sdk = tools.sdk(version).to_string_lossy().into_owned();
        let place = place.to_string_lossy().into_owned();
        commands::run("unshare", &["-rn", "node", "tests/sdk/make-stores.mjs", &sdk, &place])?;
    }
    let mut tests =
        commands::cargo_command(["test", "--locked", "-p", "cursor-stores", "real_sdk"]);
    commands::check(tests.env("CARETAKER_SDK_STORES", stores))
}
