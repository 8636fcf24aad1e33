//! A program in the place of bubblewrap, which stops, waits or forgets an option where a test needs it.

/// Does this in a shell before it becomes the bubblewrap of a run. For everything else it is bubblewrap at once.
///
/// Bubblewrap reads its options from descriptor 3, says on 4 which its child is, and reads files of the plan from many that
/// follow. A stand-in that needs some of its own takes them from 60 on, which a shell without long numbers cannot.
pub(super) fn stand_in(does: &str) -> String {
    format!(
        "#!/bin/bash\n\
         case \" $* \" in *' --args '*)\n{does}\n;; esac\n\
         exec /usr/bin/bwrap \"$@\"\n"
    )
}
