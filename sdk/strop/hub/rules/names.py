"""Which paths a member of an archive may have, so that it unpacks alike on every machine."""

import re
import unicodedata

from strop.errors import PackageError

MAX_PATH_BYTES = 1024
MAX_PART_BYTES = 255

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DRIVE = re.compile(r"[A-Za-z]:")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])[ .]*(\..*)?", re.IGNORECASE)


def decode_name(raw: bytes, where: str) -> str:
    """The path in `raw`.

    Raises:
        PackageError: It is no UTF-8.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise PackageError(f"{where}: the name {raw!a} is not UTF-8. Rename the file.") from None


def check_name(path: str, where: str) -> None:
    """Refuse a path that leaves the tree or cannot be a file's name on some system.

    Raises:
        PackageError: The message names the path and the rule.
    """
    problem = name_problem(path)
    if problem is not None:
        raise PackageError(f"{where}: the member {path!a} {problem}. Rename or remove it.")


def name_problem(path: str) -> str | None:
    """Why `path` cannot be a member's name, as the end of a sentence; None when it can."""
    parts = path.split("/")
    encoded_sizes = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    checks = (
        (not path, "has no name"),
        (path.startswith("/") or _DRIVE.match(path) is not None, "has an absolute path"),
        (".." in parts, "leaves the tree with `..`"),
        ("\\" in path, "has a backslash, which separates folders on Windows"),
        (_CONTROL.search(path) is not None, "has control characters"),
        ("" in parts or "." in parts, "has an empty or `.` part"),
        (any("\ud800" <= letter <= "\udfff" for letter in path), "is not UTF-8"),
        (any(_RESERVED.fullmatch(part) for part in parts), "has a name reserved on Windows"),
        (any(part[-1:] in (".", " ") for part in parts), "ends in a dot or space, lost on Windows"),
        (max(encoded_sizes) > MAX_PART_BYTES, f"has a part longer than {MAX_PART_BYTES} bytes"),
        (sum(encoded_sizes) > MAX_PATH_BYTES, f"is longer than {MAX_PATH_BYTES} bytes"),
    )
    return next((problem for is_broken, problem in checks if is_broken), None)


class NameSet:
    """The paths of one tree; refuses those that would meet on some file system.

    Two paths meet when they are equal, differ only in case or in Unicode composition, or when one
    needs as a folder what the other has as a file.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._spellings: dict[str, str] = {}
        self._files: set[str] = set()

    def add(self, path: str, *, is_folder: bool = False) -> None:
        """Take `path` in.

        Raises:
            PackageError: It meets a path that is there already.
        """
        check_name(path, self._where)
        parts = path.split("/")
        folders = ["/".join(parts[:count]) for count in range(1, len(parts) + is_folder)]
        for folder in folders:
            if self._spell(folder) in self._files:
                raise PackageError(
                    f"{self._where}: {folder!a} is both a file and a folder. Remove one of them."
                )
        if not is_folder:
            self._add_file(path)

    def _add_file(self, path: str) -> None:
        is_known = self._fold(path) in self._spellings
        key = self._spell(path)
        if is_known:
            kind = "stands twice" if key in self._files else "is both a file and a folder"
            raise PackageError(f"{self._where}: {path!a} {kind}. Remove one of them.")
        self._files.add(key)

    def _spell(self, path: str) -> str:
        key = self._fold(path)
        spelling = self._spellings.setdefault(key, path)
        if spelling != path:
            raise PackageError(
                f"{self._where}: {spelling!a} and {path!a} differ only in case or "
                "accents, and are one file on some systems. Rename one of them."
            )
        return key

    @staticmethod
    def _fold(path: str) -> str:
        return unicodedata.normalize("NFC", unicodedata.normalize("NFD", path).casefold())
