"""How large an archive may grow (steps: package, publish)."""

from dataclasses import dataclass

from strop.errors import PackageError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one archive unpacks to."""

    member_count: int = 20_000
    unpacked_bytes: int = 1024 * MIB
    large_ratio: int = 2
    """Unpacked to packed size up to which an archive may grow beyond `unpacked_bytes`.

    A hub whose operator lets larger files in takes them, and still no bombs.
    """
    ratio: int = 50
    """Unpacked to packed size; asked only above `ratio_from_bytes`, where a bomb would hurt."""
    ratio_from_bytes: int = 64 * MIB
    metadata_bytes: int = 8 * MIB
    """Of each file of ``.dist-info`` that is read whole."""

    def check_count(self, count: int, where: str) -> None:
        """Refuse more members than allowed."""
        if count > self.member_count:
            raise PackageError(
                f"{where} has more than {self.member_count} members. "
                "Pack data files into one archive."
            )

    def check_size(self, unpacked_bytes: int, where: str, packed_bytes: int = 0) -> None:
        """Refuse contents that are too large."""
        allowed_bytes = max(self.unpacked_bytes, self.large_ratio * packed_bytes)
        if unpacked_bytes > allowed_bytes:
            raise PackageError(
                f"{where} unpacks to more than {allowed_bytes // MIB} MiB. "
                "Load large data when the environment runs instead of shipping it."
            )

    def check_ratio(self, unpacked_bytes: int, packed_bytes: int, where: str) -> None:
        """Refuse large contents that are out of proportion to the archive."""
        if unpacked_bytes > max(self.ratio_from_bytes, self.ratio * packed_bytes):
            raise PackageError(
                f"{where} unpacks to more than {self.ratio} times its size: this looks like a "
                "decompression bomb. Ship such data compressed as one file."
            )


DEFAULT_LIMITS = Limits()
