//! Copies bytes in both directions, unchanged, until both sides are done or silent for too long.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use run_protocol::{NetRefusal, NetVia};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::egress_control::{Asked, EgressControl, Refused};

/// The buffer of one direction. A side that sends faster than the other reads has to wait.
const BUFFER: usize = 16 * 1024;

/// Copies in both directions. First sends the client's bytes that the shim has already read.
pub(super) async fn relay(
    inside: TcpStream,
    outside: TcpStream,
    sent: &[u8],
    control: &EgressControl,
    via: NetVia,
) -> io::Result<()> {
    inside.set_nodelay(true).ok();
    let (mut from_inside, mut to_inside) = inside.into_split();
    let (mut from_outside, mut to_outside) = outside.into_split();
    let signs = SignsOfLife::new();
    let limits = &control.policy.limits;
    let both = async {
        let up = async {
            to_outside.write_all(sent).await?;
            pump(&mut from_inside, &mut to_outside, &signs, control).await
        };
        let down = pump(&mut from_outside, &mut to_inside, &signs, control);
        tokio::try_join!(up, down)
    };
    let ended = tokio::select! {
        moved = both => moved.map(|_| ()),
        () = signs.silence(limits.idle) => Ok(()),
    };
    if let Err(error) = &ended
        && error.kind() == io::ErrorKind::QuotaExceeded
    {
        control.denied(via, Asked::nothing(), Refused::plainly(NetRefusal::TooMuchData));
    }
    ended
}

/// Copies one direction to its end, and closes the receiving side. The other direction may go on.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    signs: &SignsOfLife,
    control: &EgressControl,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        signs.note();
        if length == 0 {
            return to.shutdown().await;
        }
        if !control.spend(length) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        to.write_all(&buffer[..length]).await?;
        signs.note();
    }
}

/// The time of the last transfer.
struct SignsOfLife {
    began: Instant,
    last_ms: AtomicU64,
}

impl SignsOfLife {
    fn new() -> Self {
        Self { began: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    fn note(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// Returns after this much time without a transfer.
    async fn silence(&self, allowed: Duration) {
        loop {
            let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let deadline = self.began + last + allowed;
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }
}
