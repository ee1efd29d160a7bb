"""Record of the stage `fetch`: files unpacked from a pinned wheel."""

from typing import Annotated, Literal

from msgspec import Meta

from cutesnake.model.records.common import Digest, Provenance, Record


class Fetch(Record, tag="fetch"):
    """fetched.json: files unpacked from a pinned wheel."""

    status: Literal["ok"]
    reason: None
    provenance: Provenance
    package: str
    version: str
    wheel: str
    sha256: Digest
    licence: str
    homepage: str
    listed: Annotated[list[str], Meta(min_length=1)]
    files: Annotated[dict[str, Digest], Meta(min_length=1)]
