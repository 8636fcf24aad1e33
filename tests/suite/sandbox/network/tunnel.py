# One end of a tunnel: a TUN interface whose packets travel over UDP to the other end, as with a real TUN proxy.
# Arguments: the address here, the address there, and a pipe into which it writes when the interface exists.
import fcntl
import os
import select
import signal
import socket
import struct
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# This process must end even if the test fails.
signal.alarm(600)
here, there, pipe = sys.argv[1:]
tunnel = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH22x", b"tunnel", IFF_TUN | IFF_NO_PI))
cable = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
cable.bind((here, 9000))
with open(pipe, "w") as ready:
    ready.write("yes\n")
while True:
    for ready in select.select([tunnel, cable], [], [])[0]:
        try:
            if ready is cable:
                os.write(tunnel, cable.recv(65536))
            else:
                cable.sendto(os.read(tunnel, 65536), (there, 9000))
        except OSError:
            pass  # One of the two ends is not up yet.
