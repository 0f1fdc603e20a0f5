"""Runs inside a sandbox: join the standard streams with a server on its loopback."""

import os
import socket
import sys
import threading

_CHUNK_BYTES = 1 << 16
_STACK_BYTES = 1 << 18


def _carry_in(server: socket.socket) -> None:
    while chunk := os.read(0, _CHUNK_BYTES):
        server.sendall(chunk)
    server.shutdown(socket.SHUT_WR)


def _carry_out(server: socket.socket) -> None:
    while chunk := server.recv(_CHUNK_BYTES):
        view = memoryview(chunk)
        while view:
            view = view[os.write(1, view) :]


def main(port: int) -> None:
    """Carry bytes both ways until the server hangs up."""
    server = socket.create_connection(("127.0.0.1", port))
    threading.stack_size(_STACK_BYTES)
    threading.Thread(target=_carry_in, args=(server,), daemon=True).start()
    _carry_out(server)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
