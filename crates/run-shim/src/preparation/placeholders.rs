//! Harmless files for paths where the agent must not create or read anything. All runs share them. They are never replaced: a run
//! that starts at the same time expects the inodes that it found.

use ground::{create_if_missing, make_private_dir};
use run_journal::StateRoot;
use sandbox_plan::{NO_JSON, NO_XML, OWN_COMMON_DIR, Placeholders, SHADOW_COMMON_DIR};

use crate::preparation::private_roots::PrivateRootsError;

pub(crate) fn paths(state: &StateRoot) -> Placeholders {
    let at = |name: &str| state.placeholders().join(name);
    Placeholders {
        directory: at("directory"),
        file: at("file"),
        common_dir: at("commondir"),
        shadow_common_dir: at("shadow"),
        json: at("json"),
        xml: at("xml"),
    }
}

/// Creates the missing ones.
pub(crate) fn make(state: &StateRoot) -> Result<(), PrivateRootsError> {
    let placeholders = paths(state);
    let files: [(_, &[u8]); 5] = [
        (&placeholders.file, b""),
        (&placeholders.common_dir, OWN_COMMON_DIR),
        (&placeholders.shadow_common_dir, SHADOW_COMMON_DIR),
        (&placeholders.json, NO_JSON),
        (&placeholders.xml, NO_XML),
    ];
    make_private_dir(&placeholders.directory)
        .and_then(|()| files.into_iter().try_for_each(|(path, text)| create_if_missing(path, text)))
        .map_err(|source| PrivateRootsError::Write { path: state.placeholders(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::*;

    #[test]
    fn placeholders_are_made_once_and_a_missing_one_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateRoot::new(directory.path().to_owned());
        let Placeholders { directory, file, common_dir, shadow_common_dir, json, xml } =
            paths(&state);
        let inodes = || {
            let of = |path: &Path| path.metadata().map(|found| found.ino()).ok();
            [&directory, &file, &common_dir, &shadow_common_dir, &json, &xml].map(|path| of(path))
        };
        make(&state).unwrap();
        let first = inodes();
        assert!(first.iter().all(Option::is_some));
        std::fs::remove_file(&common_dir).unwrap();
        make(&state).unwrap();
        assert_eq!(std::fs::read(&common_dir).unwrap(), OWN_COMMON_DIR);
        let second = inodes();
        assert_eq!((&second[..2], &second[3..]), (&first[..2], &first[3..]));
        assert_eq!(std::fs::read_dir(state.placeholders()).unwrap().count(), 6, "no draft is left");
    }
}
