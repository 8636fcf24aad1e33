//! A program in the place of bubblewrap, which stops, waits or forgets an option where a test needs it.

/// Does this in a shell before it becomes the bubblewrap of a run. For everything else it is bubblewrap at once.
pub(super) fn stand_in(does: &str) -> String {
    format!(
        "#!/bin/sh\n\
         case \" $* \" in *' --args '*)\n{does}\n;; esac\n\
         exec /usr/bin/bwrap \"$@\"\n"
    )
}
