//! Ctrl-C and SIGTERM, for a command that follows a run.
//!
//! ```text
//!   on a terminal     Following ──INT──► Leaving (a moment to press it again) ──INT──► Stopping ──any──► Killing
//!                                            └─ moment over ──► detached
//!   without one       Following ──INT, TERM──► Stopping ──any──► Killing
//! ```

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use ground::lock;
use nix::sys::signal::{SigSet, Signal};
use run_protocol::StopManner;

/// Whether a user can press Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    AtATerminal,
    /// A script, a service, a CI job: a signal means that the work should end.
    Unattended,
}

/// How far the user has interrupted the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    Following,
    Leaving,
    Stopping,
}

/// The command's reaction to a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Say how to come back and how to stop the run, and wait a moment for a second Ctrl-C.
    OfferToStop,
    /// Exit, and let the run continue.
    Leave,
    Stop(StopManner),
}

impl Interruption {
    #[must_use]
    pub(crate) fn step(self, seat: Seat, signal: Signal) -> (Self, Reaction) {
        match (self, seat, signal) {
            (Self::Stopping, _, _) => (Self::Stopping, Reaction::Stop(StopManner::Now)),
            (Self::Following, Seat::AtATerminal, Signal::SIGINT) => {
                (Self::Leaving, Reaction::OfferToStop)
            }
            // SIGTERM is meant for this command, not for the run.
            (Self::Following, Seat::AtATerminal, _) => (Self::Leaving, Reaction::Leave),
            (Self::Following, Seat::Unattended, _) | (Self::Leaving, _, _) => {
                (Self::Stopping, Reaction::Stop(StopManner::Ladder))
            }
        }
    }
}

/// The signals that this process handles itself. Every thread that starts later blocks them.
#[derive(Debug)]
pub(crate) struct TakenSignals(SigSet);

impl TakenSignals {
    pub(crate) fn block() -> nix::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
        signals.thread_block()?;
        Ok(Self(signals))
    }

    /// Waits for the next signal.
    pub(crate) fn wait(&self) -> nix::Result<Signal> {
        self.0.wait()
    }
}

/// The signals for a process that follows one run after another. The latest listener gets the next signal.
#[derive(Debug, Clone)]
pub(crate) struct SignalPost {
    sender: Sender<Option<Signal>>,
    receiver: Arc<Mutex<Receiver<Option<Signal>>>>,
}

impl SignalPost {
    /// Takes over the signals until the process ends.
    pub(crate) fn open() -> nix::Result<Self> {
        let signals = TakenSignals::block()?;
        let (sender, receiver) = mpsc::channel();
        let post = sender.clone();
        thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                post.send(Some(signal)).ok();
            }
        });
        Ok(Self { sender, receiver: Arc::new(Mutex::new(receiver)) })
    }

    /// Waits for the next signal; `None` after `dismiss`.
    pub(crate) fn next(&self) -> Option<Signal> {
        self.receiver().recv().ok().flatten()
    }

    /// Waits for the next signal, for at most `limit`.
    pub(crate) fn next_within(&self, limit: Duration) -> Option<Signal> {
        self.receiver().recv_timeout(limit).ok().flatten()
    }

    /// Leaves a signal for the next listener.
    pub(crate) fn put_back(&self, signal: Signal) {
        self.sender.send(Some(signal)).ok();
    }

    /// Wakes the listener.
    pub(crate) fn dismiss(&self) {
        self.sender.send(None).ok();
    }

    fn receiver(&self) -> MutexGuard<'_, Receiver<Option<Signal>>> {
        lock(&self.receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reactions(seat: Seat, signals: &[Signal]) -> Vec<Reaction> {
        let mut state = Interruption::Following;
        let mut reactions = Vec::new();
        for signal in signals {
            let (next, reaction) = state.step(seat, *signal);
            state = next;
            reactions.push(reaction);
        }
        reactions
    }

    #[test]
    fn at_a_terminal_ctrl_c_offers_to_stop_then_stops_then_stops_at_once() {
        assert_eq!(
            reactions(Seat::AtATerminal, &[Signal::SIGINT; 4]),
            [
                Reaction::OfferToStop,
                Reaction::Stop(StopManner::Ladder),
                Reaction::Stop(StopManner::Now),
                Reaction::Stop(StopManner::Now),
            ]
        );
        assert_eq!(reactions(Seat::AtATerminal, &[Signal::SIGTERM]), [Reaction::Leave]);
    }

    #[test]
    fn without_a_terminal_every_signal_stops() {
        for signal in [Signal::SIGINT, Signal::SIGTERM] {
            assert_eq!(
                reactions(Seat::Unattended, &[signal, signal]),
                [Reaction::Stop(StopManner::Ladder), Reaction::Stop(StopManner::Now)]
            );
        }
    }
}
