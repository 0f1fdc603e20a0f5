"""The identity of one rollout and the seeds that follow from it (step: rollout)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which rollout this is: the key for resuming and for accounting exactly once."""

    run_seed: int
    environment: str
    """``owner/name`` without version, or the bare name of an environment without owner."""
    split: str
    task_key: str
    visit: int = 0
    """How often the task was drawn before in this run, from 0."""
    member: int = 0
    """Place in the group, from 0."""

    @property
    def group(self) -> Attempt:
        """The first member of its group: equal for all members."""
        return self if self.member == 0 else replace(self, member=0)

    @property
    def environment_seed(self) -> int:
        """Shared by a group: the sampling seed's tuple without the member, 0 to 2^64 - 1."""
        return derive_seed(self.run_seed, self.environment, self.split, self.task_key, self.visit)

    @property
    def sampling_seed(self) -> int:
        """The attempt's own, 0 to 2^64 - 1."""
        return derive_seed(
            self.run_seed, self.environment, self.split, self.task_key, self.visit, self.member
        )


def derive_seed(*identity: int | str) -> int:
    """The first 8 bytes of the sha256 of the identity as a canonical JSON array."""
    # Spelled out: every rollout derives several, and an encoder would take twice as long.
    parts = [encode_basestring_ascii(p) if isinstance(p, str) else str(p) for p in identity]
    digest = hashlib.sha256(f"[{','.join(parts)}]".encode("ascii")).digest()
    return int.from_bytes(digest[:8], "big")
