//! A program that replaces bubblewrap, and stops, waits or drops an option where a test needs it.

/// Runs `does` in a shell before it becomes a run's bubblewrap. All other calls go straight to bubblewrap.
///
/// Bubblewrap reads its options from descriptor 3, reports its child on 4, and reads the plan's files from many further
/// descriptors. A stand-in that needs its own descriptors uses 60 and above, so its shell must support numbers with two
/// digits.
pub(super) fn stand_in(does: &str) -> String {
    format!(
        "#!/bin/bash\n\
         case \" $* \" in *' --args '*)\n{does}\n;; esac\n\
         exec /usr/bin/bwrap \"$@\"\n"
    )
}
