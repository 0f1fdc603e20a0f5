"""One run inside a container: the protocol's frames on standard input and output."""

import os
import select
import socket
from typing import NoReturn

from strop.sandbox.zygote import cases, meter, python, rootfs, supervisor, untrusted
from strop.sandbox.zygote.place import Ground, Place

_CHUNK_BYTES = 1 << 16


def main() -> NoReturn:
    """Serve one request; the container around it is what keeps code apart."""
    near, far = socket.socketpair()
    python.prepare([])
    pid = os.fork()
    if pid == 0:
        near.close()
        try:
            _serve(far)
        finally:
            meter.kill_below(os.getpid())
            os._exit(0)
    far.close()
    _pump(near)
    os.waitpid(pid, 0)
    os._exit(0)


def _serve(job: socket.socket) -> None:
    meter.become_reaper()
    os.makedirs(os.path.join(rootfs.BOX, "tmp"), exist_ok=True)
    os.environ["HOME"] = ""
    ground = Ground(
        tier="plain",
        uid=os.getuid(),
        gid=os.getgid(),
        scratch="",
        filters={},
        readable=(),
        python_paths=(),
        first_uid=0,
        uid_count=1,
        has_base_folder=False,
    )
    place = Place(ground, ground.uid, ground.gid, rootfs.BOX)
    received = supervisor.receive_request(job)
    if received is not None:
        child = untrusted.spawn(place, "local")
        cases.supervise(supervisor.Run(job, place, child, received[0], "local"))


def _pump(near: socket.socket) -> None:
    """Carry bytes between the standard streams and the supervisor until one of them ends."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(near, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            chunk = os.read(fd, _CHUNK_BYTES)
            if not chunk:
                if fd != 0:
                    return
                # The supervisor sees that the client hung up, and ends the run.
                near.shutdown(socket.SHUT_WR)
                poll.unregister(fd)
                continue
            view = memoryview(chunk)
            while view:
                view = view[os.write(near.fileno() if fd == 0 else 1, view) :]
