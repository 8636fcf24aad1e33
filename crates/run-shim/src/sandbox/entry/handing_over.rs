//! Passes descriptors between Caretaker's own processes, over a socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The first byte of a message with descriptors. Any other message is an error.
pub(super) const HERE: u8 = 0x06;
/// The kinds of descriptors, one letter for each, in order.
pub(super) const IPC: u8 = b'i';
pub(super) const NETWORK: u8 = b'n';
pub(super) const SEGMENTS: u8 = b's';
pub(super) const DOORS: u8 = b'd';

/// The most descriptors in one message.
const MOST_DESCRIPTORS: usize = 5;
const LONGEST_COMPLAINT: usize = 1024;

pub(super) fn hand_over(
    to: BorrowedFd<'_>,
    word: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    sendmsg(to, &[IoSlice::new(word)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message and its descriptors. An empty message means that the other side is gone.
pub(super) fn receive(from: BorrowedFd<'_>) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut said = [0; LONGEST_COMPLAINT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut room = [IoSliceMut::new(&mut said)];
    let received = recvmsg(from, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(handed_over) = message {
            descriptors.extend(handed_over);
        }
    }
    Ok((said[..received.bytes].to_vec(), descriptors))
}
