"""Which process holds the other end of a connection on this machine.

Variables are inherited, and an API key with them: the shell that an agent starts knows both
address and key. Whose socket it is cannot be inherited by accident.

Source: Linux, proc_pid_net(5) and proc_pid_fd(5).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from strop.serve.http.message import Peer

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def holds_connection(pid: int, peer: Peer) -> bool:
    """Whether the process itself, and not merely a child of it, opened the connection."""
    inode = _inode_of(peer)
    return inode is not None and f"socket:[{inode}]" in _links_of(pid)


def _inode_of(peer: Peer) -> str | None:
    # Number, local address, remote address, state, queues, timer, retransmits, user, timeout.
    line = re.compile(
        rf"^ *\d+: [0-9A-F]+:{peer.port:04X} [0-9A-F]+:{peer.own_port:04X}(?: +\S+){{6}} +(\d+)",
        re.MULTILINE,
    )
    for table in _TABLES:
        if table.exists() and (found := line.search(table.read_text())):
            return found[1]
    return None


def _links_of(pid: int) -> set[str]:
    folder = f"/proc/{pid}/fd"
    links = set()
    try:
        for name in os.listdir(folder):
            try:
                links.add(os.readlink(f"{folder}/{name}"))
            except OSError:
                continue
    except OSError:
        return set()
    return links
