"""Open the store of blobs that the settings name."""

from urllib.parse import urlsplit

from strop.errors import ConfigError
from strop_hub.settings import Settings
from strop_hub.storage.base import Storage
from strop_hub.storage.filesystem import FileStorage

_CONNECT_S = 3
_READ_S = 30


def open_storage(settings: Settings) -> Storage:
    """A bucket for ``s3://bucket/prefix``, else the folder of the data folder.

    Raises:
        ConfigError: The address is no such one, or the extra is not installed.
    """
    if not settings.storage_url:
        settings.blobs.mkdir(parents=True, exist_ok=True)
        return FileStorage(settings.blobs)
    parts = urlsplit(settings.storage_url)
    if parts.scheme != "s3" or not parts.netloc:
        raise ConfigError(
            f"STROP_HUB_STORAGE_URL={settings.storage_url!r} is no store of blobs. "
            "Write s3://BUCKET or s3://BUCKET/PREFIX, or leave it out for the data folder."
        )
    return _open_bucket(settings, parts.netloc, parts.path)


def _open_bucket(settings: Settings, bucket: str, prefix: str) -> Storage:
    try:
        import boto3
        from botocore.config import Config

        from strop_hub.storage.s3 import S3Storage
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"blobs in S3 need {error.name}, which is not installed. Run: pip install 'strop[s3]'"
        ) from error
    config = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        max_pool_connections=2 * settings.blob_threads,
        retries={"max_attempts": 3, "mode": "standard"},
        signature_version="s3v4",
        s3={"addressing_style": "path" if settings.s3_endpoint_url else "auto"},
    )
    session = boto3.Session(region_name=settings.s3_region or None)
    client = session.client("s3", endpoint_url=settings.s3_endpoint_url or None, config=config)
    signer = None
    if settings.s3_public_url:
        signer = session.client("s3", endpoint_url=settings.s3_public_url, config=config)
    return S3Storage(client, bucket, prefix, signer)
