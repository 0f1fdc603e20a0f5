"""Read the form of the upload API that packaging clients speak (step: publish).

What decides is read from the file itself; the form may only agree with it. Source: the "Legacy
upload API" of the Python packaging specifications.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from packaging.metadata import RawMetadata, parse_email
from packaging.version import InvalidVersion

from strop.errors import InvalidRefError, PackageError
from strop.hub.refs import normalize_name, read_version
from strop.hub.sdist import SUFFIX, check_sdist
from strop_hub.errors import DigestMismatchError, InvalidPackageError, MalformedBodyError
from strop_hub.publish.form import Parts, ReceivedFile
from strop_hub.publish.sdist import SdistCandidate
from strop_hub.publish.validate import Candidate, check_version_length, examine_wheel
from strop_hub.settings import MIB, Settings

CONTENT = "content"
ATTESTATIONS = "attestations"
_DIGESTS = {
    "md5_digest": "md5",
    "sha256_digest": "sha256",
    "blake2_256_digest": "blake2b",
}
_FIELDS = (
    ":action",
    "protocol_version",
    "filetype",
    "name",
    "version",
    "metadata_version",
    "requires_python",
    ATTESTATIONS,
    *_DIGESTS,
)
_MAX_FIELD_BYTES = 512 * 1024
_DESCRIPTION_BYTES = 16 * MIB
_KINDS = {"bdist_wheel": ".whl", "sdist": SUFFIX}


def legacy_parts(settings: Settings) -> Parts:
    """What of the form is read; the rest repeats what is in the file."""
    return Parts((CONTENT,), _FIELDS, settings.max_file_bytes, _MAX_FIELD_BYTES, _DESCRIPTION_BYTES)


def examine_legacy(
    files: Mapping[str, ReceivedFile], fields: Mapping[str, str]
) -> Candidate | SdistCandidate:
    """The candidate in a whole form.

    Raises:
        MalformedBodyError: This is no upload.
        DigestMismatchError: Bytes differ from what the form announces.
        InvalidPackageError: An archive breaks a rule, or is not what the form says.
        InvalidManifestError: The manifest is wrong.
    """
    file = _check_form(files, fields)
    _check_digests(file, fields)
    if file.filename.endswith(".whl"):
        candidate = examine_wheel(file)
        raw, _ = parse_email(candidate.facts.metadata)
        _check_agreement(raw, fields, file.filename)
        return candidate
    try:
        facts = check_sdist(file.path, filename=file.filename)
    except PackageError as error:
        raise InvalidPackageError(str(error)) from None
    check_version_length(facts.version)
    _check_agreement(facts.raw, fields, file.filename)
    return SdistCandidate(file, facts)


def _check_form(files: Mapping[str, ReceivedFile], fields: Mapping[str, str]) -> ReceivedFile:
    action, protocol = fields.get(":action", "file_upload"), fields.get("protocol_version", "1")
    if (action, protocol) != ("file_upload", "1"):
        raise MalformedBodyError(
            f"`:action` is {action[:40]!a} and `protocol_version` {protocol[:40]!a}; this address "
            "takes `file_upload` and `1`. Use a current twine or `uv publish`."
        )
    file = files.get(CONTENT)
    if file is None:
        raise MalformedBodyError(f"the form has no file `{CONTENT}`")
    suffix = next((end for end in _KINDS.values() if file.filename.endswith(end)), None)
    if suffix is None:
        raise InvalidPackageError(
            f"{file.filename[:120]!a} is neither a wheel (.whl) nor a source distribution "
            f"({SUFFIX}). Build one with `python -m build`."
        )
    filetype = fields.get("filetype")
    if filetype and _KINDS.get(filetype) != suffix:
        raise InvalidPackageError(
            f"`filetype` is {filetype[:40]!a}, but the file is {file.filename[:120]!a}"
        )
    return file


def _check_digests(file: ReceivedFile, fields: Mapping[str, str]) -> None:
    for field, algorithm in _DIGESTS.items():
        announced = fields.get(field, "").lower()
        if not announced:
            continue
        computed = file.sha256 if algorithm == "sha256" else _digest(file, algorithm)
        if announced != computed:
            raise DigestMismatchError(
                f"`{field}` announces {announced[:128]!a}, what came has {computed}: the upload "
                "was altered on its way. Nothing was stored; upload it again."
            )


def _digest(file: ReceivedFile, algorithm: str) -> str:
    if algorithm == "md5":
        digest: Any = hashlib.md5(usedforsecurity=False)
    else:
        digest = hashlib.blake2b(digest_size=32)
    with file.path.open("rb") as stream:
        while chunk := stream.read(MIB):
            digest.update(chunk)
    return str(digest.hexdigest())


def _check_agreement(raw: RawMetadata, fields: Mapping[str, str], filename: str) -> None:
    """Refuse a form that says something else than the file: one of them would mislead people."""
    stated = {
        "name": (_name(fields.get("name")), _name(raw.get("name"))),
        "version": (_version(fields.get("version")), _version(raw.get("version"))),
        "metadata_version": (fields.get("metadata_version"), raw.get("metadata_version")),
        "requires_python": (fields.get("requires_python"), raw.get("requires_python")),
    }
    for field, (said, found) in stated.items():
        if said and said != found:
            raise InvalidPackageError(
                f"the form's `{field}` is {said[:120]!a}, but {filename} says "
                f"{str(found)[:120]!a}. Build it again, and upload it with a current client."
            )


def _name(text: str | None) -> str | None:
    try:
        return text and normalize_name(text)
    except InvalidRefError:
        return text


def _version(text: str | None) -> str | None:
    try:
        return text and str(read_version(text))
    except InvalidVersion:
        return text
