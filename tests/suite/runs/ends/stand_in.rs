//! A program in place of bubblewrap that stops, waits or drops an option where a test needs it.

/// Runs this in a shell before it becomes the bubblewrap of a run. For everything else it is bubblewrap at once.
///
/// Bubblewrap reads its options from descriptor 3, reports its child on 4, and reads files of the plan from many
/// further descriptors. A stand-in that needs some of its own takes them from 60 on, which a shell without long numbers
/// cannot.
pub(super) fn stand_in(does: &str) -> String {
    format!(
        "#!/bin/bash\n\
         case \" $* \" in *' --args '*)\n{does}\n;; esac\n\
         exec /usr/bin/bwrap \"$@\"\n"
    )
}
