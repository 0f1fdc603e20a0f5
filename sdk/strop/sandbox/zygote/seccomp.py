"""The filter of system calls that code in the sandbox runs under."""

import ctypes
import errno
import platform
import struct
from typing import Literal

from strop.sandbox.zygote import linux

SocketPolicy = Literal["none", "local"]
"""``none`` refuses every new socket but socketpairs; ``local`` allows Unix and IP sockets, for
use in a network namespace that has nothing but its own loopback."""

_Instruction = tuple[int, int, int, int]

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24
_SET_MODE_FILTER, _FLAG_SPEC_ALLOW = 1, 4
_NEW_NAMESPACES = 0x7E020080
_SAME_PARENT = 0x8000
"""A child beside its parent would be one of ours, which nobody waits for."""
_X32_BIT = 0x40000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_TYPE_BITS = 0xF
_STREAM, _SEQPACKET = 1, 5
"""Types of sockets whose pairs stay connected to each other for good."""

# x86-64 and arm64 numbers; None where the machine has no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "personality": (135, 92),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "vhangup": (153, 58),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    "vmsplice": (278, 75),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # Shared memory and queues outlive and escape their process: nothing that limits memory by
    # address space or by resident pages would see them.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# Their first argument names a process; only 0, the caller, may stand there.
_ONLY_ITSELF: dict[str, tuple[int, int]] = {
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}
# The first says what the second names: a process (setpriority, ioprio_set) or all of a user.
_OF_ITSELF: dict[tuple[int, int], int] = {(141, 140): 0, (251, 30): 1}
_CLONE3 = 435
_SOCKETPAIR = (53, 199)
_MACHINES = {"x86_64": (0xC000003E, 56, 16, 41), "aarch64": (0xC00000B7, 220, 29, 198)}
"""Audit architecture, and the numbers of clone, ioctl and socket."""


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def build(sockets: SocketPolicy, *, may_fork: bool = True) -> bytes:
    """Assemble the filter for this machine.

    Everything is allowed except calls that widen the kernel's attack surface, reach other
    processes, or hold memory that no limit counts. ``clone3`` looks absent, since its flags are
    out of a filter's sight and C libraries then fall back to ``clone``.

    Args:
        sockets: What ``socket`` may create.
        may_fork: False leaves only threads; for tiers where nothing counts processes.

    Raises:
        OSError: The machine is of a kind that the sandbox does not know.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}")
    architecture, clone, ioctl, socket = _MACHINES[machine]
    column = 0 if machine == "x86_64" else 1
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _KILL),
    ]
    refused = sorted({nr for row in _REFUSED.values() if (nr := row[column]) is not None})
    program += _refuse_all(refused)
    program += _when(_CLONE3, [(_RETURN, 0, 0, _REFUSE | errno.ENOSYS)])
    program += _when(clone, _clone_rule(may_fork=may_fork))
    if column == 0 and not may_fork:
        program += _refuse_all([57, 58])
    program += _when(ioctl, _refuse_values(_ARGUMENT_1, [_TIOCSTI, _TIOCLINUX]))
    families = [_AF_UNIX, _AF_INET, _AF_INET6] if sockets == "local" else []
    for row in _ONLY_ITSELF.values():
        program += _when(row[column], _demand_all([(_ARGUMENT_0, 0)]))
    for numbers, own_kind in _OF_ITSELF.items():
        rule = _demand_all([(_ARGUMENT_0, own_kind), (_ARGUMENT_1, 0)])
        program += _when(numbers[column], rule)
    program += _when(socket, _allow_only(_ARGUMENT_0, families))
    program += _when(_SOCKETPAIR[column], _pair_rule(sockets))
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


class Filter:
    """A filter in the form that the kernel takes."""

    def __init__(self, program: bytes) -> None:
        self._buffer = ctypes.create_string_buffer(program, len(program))
        self._packed = _Program(len(program) // 8, ctypes.addressof(self._buffer))

    def installing(self) -> linux.Call:
        """Put together what puts a process under the filter, and all that it starts, for good.

        That process must have given up new privileges.
        """
        return linux.call("seccomp", _SET_MODE_FILTER, _FLAG_SPEC_ALLOW, ctypes.byref(self._packed))


def install(program: bytes) -> None:
    """Put this thread, and all that it starts, under the filter for good."""
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    held = Filter(program)
    linux.perform([held.installing()])


def _refuse_all(numbers: list[int]) -> list[_Instruction]:
    """One comparison for each number, all jumping to one refusal at the end."""
    count = len(numbers)
    rules: list[_Instruction] = [(_EQUAL, count - index, 0, nr) for index, nr in enumerate(numbers)]
    # Past the comparisons: skip the refusal that the jumps aim at.
    return [*rules, (0x05, 0, 0, 1), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]


def _when(nr: int, rule: list[_Instruction]) -> list[_Instruction]:
    """Apply `rule` to one call, then look at the call's number again."""
    return [(_EQUAL, 0, len(rule) + 1, nr), *rule, (_LOAD, 0, 0, _NUMBER)]


def _clone_rule(*, may_fork: bool) -> list[_Instruction]:
    refusal = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    rule: list[_Instruction] = [
        (_LOAD, 0, 0, _ARGUMENT_0),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES | _SAME_PARENT),
        refusal,
    ]
    if not may_fork:
        is_thread = 0x00010000
        rule += [(_ANY_BIT, 1, 0, is_thread), refusal]
    return rule


def _refuse_values(offset: int, values: list[int]) -> list[_Instruction]:
    rule: list[_Instruction] = [(_LOAD, 0, 0, offset)]
    for value in values:
        rule += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    return rule


def _demand_all(wanted: list[tuple[int, int]]) -> list[_Instruction]:
    """Refuse unless the low half of each argument, all that the kernel reads, is as wanted."""
    rule: list[_Instruction] = []
    for offset, value in wanted:
        rule += [(_LOAD, 0, 0, offset), (_EQUAL, 1, 0, value)]
        rule.append((_RETURN, 0, 0, _REFUSE | errno.EPERM))
    return rule


def _pair_rule(sockets: SocketPolicy) -> list[_Instruction]:
    """Without a network, pairs of datagrams are refused: one of them can be turned elsewhere."""
    rule = _allow_only(_ARGUMENT_0, [_AF_UNIX])
    if sockets == "none":
        refusal = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
        rule += [(_LOAD, 0, 0, _ARGUMENT_1), (_AND, 0, 0, _TYPE_BITS)]
        rule += [(_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _SEQPACKET), refusal]
    return rule


def _allow_only(offset: int, values: list[int]) -> list[_Instruction]:
    rule: list[_Instruction] = [(_LOAD, 0, 0, offset)]
    for index, value in enumerate(values):
        rule.append((_EQUAL, len(values) - index, 0, value))
    return [*rule, (_RETURN, 0, 0, _REFUSE | errno.EACCES)]
