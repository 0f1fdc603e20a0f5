"""Where a run lives: its tier, its user, its folder, and what it may read."""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from strop.sandbox.zygote import rootfs
from strop.sandbox.zygote.groups import Group
from strop.sandbox.zygote.seccomp import SocketPolicy

Tier = Literal["root", "userns", "landlock", "plain"]
"""``root``: namespaces, and a user of its own for each sandbox. ``userns``: namespaces inside a
user namespace. ``landlock``: no namespaces. ``plain``: no isolation at all."""

_UIDS_EACH_ZYGOTE = 8192
_FIRST_UID = 0x60000000
_FEW_UIDS, _FIRST_OF_FEW = 4000, 60001


@dataclass(frozen=True, slots=True)
class Ground:
    """What all sandboxes of one zygote share."""

    tier: Tier
    uid: int
    """The zygote's own."""
    gid: int
    scratch: str
    """Folder for the sandboxes' folders in tiers without mounts."""
    filters: dict[SocketPolicy, bytes]
    readable: tuple[str, ...]
    python_paths: tuple[str, ...]
    first_uid: int
    uid_count: int
    has_base_folder: bool
    first_slot: int = 0
    """Where zygotes have to share users, each begins elsewhere among them: the kernel counts the
    processes of a user together."""

    @property
    def has_namespaces(self) -> bool:
        """Whether sandboxes have their own mounts and process numbers."""
        return self.tier in ("root", "userns")

    @property
    def switches_user(self) -> bool:
        """Whether each sandbox has a user of its own."""
        return self.uid == 0 and self.tier in ("root", "landlock")

    def user(self, slot: int) -> int:
        """Give the user of the sandbox with this running number."""
        number = (self.first_slot + slot) % self.uid_count
        return self.first_uid + number if self.switches_user else self.uid

    def place(self, slot: int) -> "Place":
        """Give the place of the sandbox with this running number."""
        own, uid = self.switches_user, self.user(slot)
        gid = uid if own else self.gid
        box = rootfs.BOX if self.has_namespaces else f"{self.scratch}/box{slot}"
        return Place(self, uid, gid, box)


@dataclass(frozen=True, slots=True)
class Place:
    """One sandbox's own."""

    ground: Ground
    uid: int
    gid: int
    box: str
    """Its writable folder, as the code in it sees it."""
    group: Group | None = None
    """What code in it sits in, where the machine gives control groups."""


def user_range(number: int) -> tuple[int, int]:
    """Choose the users of one zygote, apart from those of others; the first, and how many.

    Where a user namespace leaves few users, as in many containers, zygotes share them.
    """
    with open("/proc/self/uid_map") as file:
        rows = [[int(word) for word in line.split()] for line in file]
    first = _FIRST_UID + (number % 65536) * _UIDS_EACH_ZYGOTE
    if any(start <= first and first + _UIDS_EACH_ZYGOTE <= start + n for start, _, n in rows):
        return first, _UIDS_EACH_ZYGOTE
    return _FIRST_OF_FEW, _FEW_UIDS


def prepare_box(place: Place, limits: "tuple[int, int]") -> None:
    """Make the sandbox's folder: bytes and inodes hold where it is a mount of its own."""
    if place.ground.has_namespaces:
        rootfs.mount_box(*limits, place.uid, place.gid)
        return
    for folder in (place.box, os.path.join(place.box, "tmp")):
        os.mkdir(folder, 0o700)
        if place.ground.switches_user:
            os.chown(folder, place.uid, place.gid)


def remove(folder: str) -> None:
    """Remove a folder with all that is in it, as far as that goes."""
    # Where there are namespaces they would only make the zygote larger.
    import shutil
    import subprocess

    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        # Nested deeper than Python, which holds each level open, comes.
        with suppress(OSError):
            subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)
