"""Parts of packs in a bucket of S3-compatible storage, through obstore. The only import of it.

The address and the credentials come from the usual AWS_ variables, or from the role of the machine, and are in no URL,
no argument and no error. Each part is one request, so that nothing is left of an upload that was cut short.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store

from clew.model.errors import InvalidInput, NotFound, Unavailable
from clew.store.database.contract import Transaction
from clew.store.objects.pack_store import Stray

ROW_BYTES = 64 * 1024
# A caller waits so long at the most for storage that does not answer.
PATIENCE_SECONDS = 10
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")


class Bucket:
    """An object of the bucket for each part. Those of one pack have a prefix of their own, by which S3 lists them."""

    row_bytes = ROW_BYTES

    def __init__(self, url: str, store_id: str) -> None:
        bucket, _, path = url.removeprefix("s3://").partition("/")
        path = path.strip("/")
        if not _BUCKET.fullmatch(bucket):
            # Not repeated: anything in it could be a password.
            raise InvalidInput("the setting for objects names no bucket; use s3://bucket/prefix")
        self.name = f"s3://{bucket}/{path}".rstrip("/")
        prefix = f"{path}/{store_id}".lstrip("/")
        # The time without an answer includes that of sending a part, which takes longer on a slow line.
        self._writes = _open(bucket, prefix, silence_seconds=6 * PATIENCE_SECONDS)
        self._store = _open(bucket, prefix, silence_seconds=PATIENCE_SECONDS)

    def write(self, key: str, data: bytes, tx: Transaction | None = None) -> None:
        with self._translating():
            self._writes.put(_path(key), data, use_multipart=False)

    def read(self, key: str, start: int, length: int) -> bytes:
        with self._translating():
            try:
                return bytes(self._store.get_range(_path(key), start=start, length=length))
            except BaseError as error:
                if "416" in _reason(error):
                    return b""  # The part is shorter.
                raise

    def remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._translating():
                try:
                    self._store.delete(_path(key))
                except FileNotFoundError:
                    continue

    def list(self, prefix: str) -> Iterator[Stray]:
        folder, _, rest = prefix.rpartition("/")
        if rest:
            folder = _path(f"{prefix}0").rpartition("/")[0]
        now = datetime.now(UTC)
        with self._translating():
            for page in self._store.list(folder or None):
                for entry in page:
                    key = _key(entry["path"])
                    if key.startswith(prefix):
                        yield Stray(key, (now - entry["last_modified"]).total_seconds())

    def describe(self) -> str:
        return self.name

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise Unavailable(f"there is no bucket for {self.name}; create it, or set another one") from None
            raise NotFound(f"it is not in {self.name}") from None
        except BaseError as error:
            # Only the reason: the text has the whole request.
            raise Unavailable(
                f"cannot use the objects in {self.name} ({_reason(error)}); try again when it answers; what needs no "
                "object works meanwhile"
            ) from None


def _open(bucket: str, prefix: str, *, silence_seconds: float) -> S3Store:
    """The bucket; a request that gets no answer for so long has failed."""
    return S3Store(
        bucket,
        prefix=prefix,
        retry_config={
            "max_retries": 4,
            "retry_timeout": timedelta(seconds=PATIENCE_SECONDS),
            "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
        },
        client_options={
            "connect_timeout": timedelta(seconds=PATIENCE_SECONDS),
            "read_timeout": timedelta(seconds=silence_seconds),
            "timeout": timedelta(seconds=6 * PATIENCE_SECONDS),
            "allow_http": _may_be_plain_http(),
        },
    )


def _path(key: str) -> str:
    """The path of a part in the bucket: its pack is a folder there."""
    pack, _, number = key.rpartition("-")
    return f"{pack}/{number}"


def _key(path: str) -> str:
    pack, _, number = path.rpartition("/")
    return f"{pack}-{number}"


def _may_be_plain_http() -> bool:
    """Whether requests may go without TLS: on this machine, or where the user said so."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return urlsplit(endpoint).hostname in LOOPBACK or os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("true", "1")


def _reason(error: BaseError) -> str:
    """Why a request failed, without what was in it."""
    text = str(error)
    said = [match[1].strip() for pattern in (_STATUS, _CODE) if (match := pattern.search(text))]
    return " ".join(said) or ("no answer" if "error sending request" in text else type(error).__name__)
