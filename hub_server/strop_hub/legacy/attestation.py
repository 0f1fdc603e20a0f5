"""Verify the attestations that came with a file, and keep them (step: publish).

An attestation counts when it is signed by a publisher whom the hub's operator trusts for the
owner: any signature at all proves nothing. Source: PEP 740.

Signatures lead to the roots of trust of the public Sigstore, or to those that the operator of a
Sigstore of one's own names.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from strop.errors import ConfigError
from strop.hub.wire import PublishedFile
from strop_hub.errors import AttestationError
from strop_hub.publish.form import ReceivedFile
from strop_hub.publish.provenance import Provenance
from strop_hub.settings import Settings
from strop_hub.storage import Storage

MAX_ATTESTATIONS = 2
"""One of each kind that packaging clients make."""

_MEDIA_TYPE = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_GITHUB_ISSUER = "https://token.actions.githubusercontent.com"
_WORKFLOW_RAN_ON = ("1.3.6.1.4.1.57264.1.13", "1.3.6.1.4.1.57264.1.14")
"""Claims of a certificate: the commit, and the branch or tag."""


def keep_provenance(
    storage: Storage,
    settings: Settings,
    owner: str,
    file: ReceivedFile | PublishedFile,
    attestations: str | None,
) -> Provenance | None:
    """Keep the file's provenance; None when it came without attestations.

    Raises:
        AttestationError: They are not valid for the file, or this hub cannot verify any.
    """
    if not attestations:
        return None
    publishers = publishers_of(owner, settings.attestation_publishers)
    content = verify(file, attestations, publishers, settings.attestation_trusted_root)
    sha256 = hashlib.sha256(content).hexdigest()
    storage.put_bytes(sha256, content)
    return Provenance(sha256, len(content))


def attestations_of(provenance: bytes) -> str:
    """The attestations in a provenance document, as packaging clients send them.

    Raises:
        AttestationError: It is none.
    """
    try:
        bundles = json.loads(provenance)["attestation_bundles"]
        return json.dumps([one for bundle in bundles for one in bundle["attestations"]])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AttestationError(f"the provenance cannot be read: {error}") from None


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


def check_trusted_root(path: str) -> None:
    """Refuse to start with roots of trust by which nothing could ever be verified.

    Raises:
        ConfigError: The file cannot be read or is no trusted root, or the extra is missing.
    """
    if not path:
        return
    try:
        _verifier(path)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`attestation_trusted_root` is set, and {error.name} is not installed. "
            "Run: pip install 'strop[hub,attestations]'"
        ) from error
    except Exception as error:
        problem = " ".join(str(error).split())[:300]
        raise ConfigError(
            f"`attestation_trusted_root`: {path} is no trusted root of a Sigstore: {problem}. "
            "Name the `trusted_root.json` that your Sigstore's clients use."
        ) from error


def verify(
    file: ReceivedFile | PublishedFile,
    attestations: str,
    publishers: list[tuple[str, str]],
    trusted_root: str = "",
) -> bytes:
    """The provenance document of a file whose every attestation is valid.

    Args:
        file: What they are about.
        attestations: A JSON list, as packaging clients send it.
        publishers: Repository and workflow of each who may have signed.
        trusted_root: The file with the roots of trust; empty for the public Sigstore's.

    Raises:
        AttestationError: One is not, or nothing here can verify it.
    """
    try:
        import pypi_attestations as library
    except ModuleNotFoundError:
        raise AttestationError(
            "this hub does not verify attestations, and keeps none unverified. Its operator can "
            "install strop[hub,attestations]; without attestations the file itself is taken."
        ) from None
    if not publishers:
        raise AttestationError(
            "this hub trusts no publisher for this owner, so that no attestation can be valid. Its "
            "operator can name some; without attestations the file itself is taken."
        )
    parsed = _parse(library, attestations)
    try:
        distribution = library.Distribution(name=file.filename, digest=file.sha256)
    except ValueError as error:
        raise AttestationError(f"{file.filename!a} cannot have attestations: {error}") from None
    candidates = [
        library.GitHubPublisher(repository=repository, workflow=workflow)
        for repository, workflow in publishers
    ]
    verifier = _verifier(trusted_root)
    bundles = [
        library.AttestationBundle(
            publisher=_publisher(library, verifier, distribution, attestation, candidates),
            attestations=[attestation],
        )
        for attestation in parsed
    ]
    return library.Provenance(attestation_bundles=bundles).model_dump_json().encode()


def _verifier(trusted_root: str) -> Any:
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    if trusted_root:
        return Verifier(trusted_root=TrustedRoot.from_file(trusted_root))
    # The roots of trust that come with the library; an upload waits for no other server.
    return Verifier.production(offline=True)


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


def _publisher(
    library: Any, verifier: Any, distribution: Any, attestation: Any, candidates: list[Any]
) -> Any:
    """The trusted publisher who made an attestation."""
    problem: Exception | None = None
    for publisher in candidates:
        try:
            policy = _policy(publisher, attestation.certificate_claims)
            kind, payload = verifier.verify_dsse(attestation.to_bundle(), policy)
            _check_statement(library, kind, payload, distribution)
        except Exception as error:  # noqa: BLE001 - parsers of certificates raise what they like
            problem = error
        else:
            return publisher
    raise AttestationError(
        f"an attestation of {distribution.name} is not valid: {str(problem)[:300]}. "
        "Build and attest it again, or leave its attestations out."
    )


def _policy(publisher: Any, claims: dict[str, str]) -> Any:
    """What the certificate of a signature by the publisher says.

    It names the workflow's file together with the commit or the branch it ran on, which its own
    claims tell. Source: PEP 740; the extensions of Fulcio's certificates.
    """
    from sigstore.verify.policy import (
        AllOf,
        AnyOf,
        OIDCBuildConfigURI,
        OIDCIssuerV2,
        OIDCSourceRepositoryURI,
    )

    repository = f"https://github.com/{publisher.repository}"
    workflow = f"{repository}/.github/workflows/{publisher.workflow}"
    places = [f"{workflow}@{claims[oid]}" for oid in _WORKFLOW_RAN_ON if oid in claims]
    return AllOf(
        [
            OIDCIssuerV2(_GITHUB_ISSUER),
            OIDCSourceRepositoryURI(repository),
            AnyOf([OIDCBuildConfigURI(place) for place in places]),
        ]
    )


def _check_statement(library: Any, media_type: str, payload: bytes, distribution: Any) -> None:
    """Refuse a statement that is signed, and about another file.

    Source: PEP 740 on the subject and the predicates; the in-toto statement, version 1.
    """
    statement = json.loads(payload)
    if (media_type, statement["_type"]) != (_MEDIA_TYPE, _STATEMENT):
        raise ValueError(f"a statement of the type {statement['_type']!a} ({media_type})")
    # Of other types nobody could tell what they say.
    library.AttestationType(statement["predicateType"])
    (subject,) = statement["subject"]
    if _name_of(subject["name"]) != _name_of(distribution.name):
        raise ValueError(f"the subject is {subject['name']!a}, another file")
    if subject["digest"]["sha256"] != distribution.digest:
        raise ValueError("the subject has another digest")


def _name_of(filename: str) -> tuple[Any, ...]:
    """What a file name says, in whatever spelling."""
    is_wheel = filename.endswith(".whl")
    return parse_wheel_filename(filename) if is_wheel else parse_sdist_filename(filename)
