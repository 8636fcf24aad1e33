//! Stores that Cursor's own SDK writes here, without a key and without network, read by our readers.

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
    let args = ["test", "--locked", "-p", "cursor-stores", "real_sdk"];
    commands::run_with(&commands::cargo(), &args, &[("CARETAKER_SDK_STORES", stores.as_os_str())])
}
