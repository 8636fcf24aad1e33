//! One search through one store: the pattern, and the caller who gets the matches.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{FieldMatch, Matcher};
use crate::store::{Found, Hit};

/// Hands matches to the caller. All threads stop once the caller wants no more.
pub(crate) struct Search<'a> {
    pub(crate) matcher: &'a Matcher,
    found: Found<'a>,
    is_over: AtomicBool,
}

impl<'a> Search<'a> {
    pub(crate) fn new(matcher: &'a Matcher, found: Found<'a>) -> Self {
        Self { matcher, found, is_over: AtomicBool::new(false) }
    }

    /// True once the caller wants no more matches.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Breaks once the caller wants no more matches.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    pub(crate) fn report(
        &self,
        key: &str,
        message_id: Option<String>,
        position: Option<usize>,
        FieldMatch { field, snippet }: FieldMatch,
    ) -> ControlFlow<()> {
        self.flow()?;
        let flow = (self.found)(Hit { key: key.to_owned(), message_id, position, field, snippet });
        if flow.is_break() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        flow
    }
}
