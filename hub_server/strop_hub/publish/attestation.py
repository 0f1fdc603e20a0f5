"""Verify the attestations that came with a file, and keep them (step: publish).

Source: PEP 740.
"""

from strop_hub.errors import AttestationError
from strop_hub.publish.form import ReceivedFile
from strop_hub.storage import Storage


def keep_provenance(storage: Storage, file: ReceivedFile, attestations: str | None) -> str | None:
    """The key of the blob with the file's provenance; None when it came without attestations.

    Raises:
        AttestationError: They are not valid for the file, or this hub cannot verify any.
    """
    if not attestations:
        return None
    raise AttestationError(
        "this hub does not verify attestations, and keeps none unverified. Upload without "
        "`--attestations`, or ask its operator to install strop[hub,attestations]."
    )
