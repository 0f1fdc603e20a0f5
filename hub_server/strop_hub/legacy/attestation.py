"""Verify the attestations that came with a file, and keep them (step: publish).

An attestation counts when it is signed by a publisher whom the hub's operator trusts for the
owner: any signature at all proves nothing. Source: PEP 740.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from strop_hub.errors import AttestationError
from strop_hub.publish.form import ReceivedFile
from strop_hub.settings import Settings
from strop_hub.storage import Storage

MAX_ATTESTATIONS = 2
"""One of each kind that packaging clients make."""


def keep_provenance(
    storage: Storage, settings: Settings, owner: str, file: ReceivedFile, attestations: str | None
) -> str | None:
    """The key of the blob with the file's provenance; None when it came without attestations.

    Raises:
        AttestationError: They are not valid for the file, or this hub cannot verify any.
    """
    if not attestations:
        return None
    content = verify(file, attestations, publishers_of(owner, settings.attestation_publishers))
    sha256 = hashlib.sha256(content).hexdigest()
    storage.put_bytes(sha256, content)
    return sha256


def publishers_of(owner: str, trusted: Iterable[str]) -> list[tuple[str, str]]:
    """Repository and workflow of each publisher that is trusted for an owner.

    Args:
        owner: Whose file it is.
        trusted: Entries such as ``ada=ada-lab/maze/release.yml``.
    """
    found = []
    for entry in trusted:
        name, _, place = entry.partition("=")
        repository, _, workflow = place.rpartition("/")
        if name == owner and repository:
            found.append((repository, workflow))
    return found


def verify(file: ReceivedFile, attestations: str, publishers: list[tuple[str, str]]) -> bytes:
    """The provenance document of a file whose every attestation is valid.

    Raises:
        AttestationError: One is not, or nothing here can verify it.
    """
    try:
        import pypi_attestations as library
    except ModuleNotFoundError:
        raise AttestationError(
            "this hub does not verify attestations, and keeps none unverified. Upload without "
            "`--attestations`, or ask its operator to install strop[hub,attestations]."
        ) from None
    if not publishers:
        raise AttestationError(
            "this hub trusts no publisher for this owner, so that no attestation can be valid. "
            "Upload without `--attestations`, or ask its operator to name yours."
        )
    bundles = [_bundle(library, file, one, publishers) for one in _parse(library, attestations)]
    provenance = library.Provenance(attestation_bundles=bundles)
    return provenance.model_dump_json().encode()


def _parse(library: Any, text: str) -> list[Any]:
    try:
        documents = json.loads(text)
        if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_ATTESTATIONS:
            raise AttestationError(
                f"`attestations` is no list of 1 to {MAX_ATTESTATIONS} attestations"
            )
        return [library.Attestation.model_validate(one) for one in documents]
    except (ValueError, RecursionError) as error:
        problem = " ".join(str(error).split())[:300]
        raise AttestationError(f"the attestations cannot be read: {problem}") from None


def _bundle(
    library: Any, file: ReceivedFile, attestation: Any, publishers: list[tuple[str, str]]
) -> Any:
    """The attestation together with the trusted publisher who made it."""
    problem: Exception | None = None
    try:
        distribution = library.Distribution(name=file.filename, digest=file.sha256)
    except ValueError as error:
        raise AttestationError(f"{file.filename!a} cannot have attestations: {error}") from None
    for repository, workflow in publishers:
        publisher = library.GitHubPublisher(repository=repository, workflow=workflow)
        try:
            # The roots of trust that come with the library; an upload waits for no other server.
            attestation.verify(publisher, distribution, offline=True)
        except Exception as error:  # noqa: BLE001 - parsers of certificates raise what they like
            problem = error
        else:
            return library.AttestationBundle(publisher=publisher, attestations=[attestation])
    raise AttestationError(
        f"an attestation of {file.filename} is not valid: {str(problem)[:300]}. "
        "Nothing was stored; build and upload it again."
    )
