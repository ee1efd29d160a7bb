"""Store compiler outputs by their inputs, shared between builds.

TileGym compiles the split of the keys into its kernels: the 22 builds that the default sweep needs of one of them hold
8 different split kernels and 7 different reductions. A file's name has the digest of its content, so that damaged
files are not used, and the milliseconds that it took. The store is next to the builds; deleting it costs only time.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from cutesnake.model import record

VARIABLE = "CUTESNAKE_STORE"  # the store's folder; without it everything is made again
_saved_ms: list[int] = []  # in this process


def processor_seconds() -> float:
    """Return processor time of this process, its finished programs and reused files."""
    return sum(os.times()[:4]) + sum(_saved_ms) / 1000


def reuse(output: Path, made_from: Iterable[bytes | str], make: Callable[[], object]) -> None:
    """Copy `output` from the store, or call `make`, which writes it.

    `made_from` must hold everything that determines the content: inputs, options, the tool and its version.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        make()
        return
    digest = hashlib.sha256()
    for part in made_from:
        digest.update(hashlib.sha256(part if isinstance(part, bytes) else part.encode()).digest())
    name = digest.hexdigest()
    for kept in Path(folder).glob(f"{name}-*{output.suffix}"):
        content, (*digests, ms) = kept.read_bytes(), kept.stem.split("-")
        if digests == [name, _short(content)] and ms.isdigit():  # else it was damaged since
            output.write_bytes(content)
            _saved_ms.append(int(ms))
            return
        kept.unlink(missing_ok=True)
    began = processor_seconds()
    make()
    content, ms = output.read_bytes(), f"{1000 * (processor_seconds() - began):.0f}"
    record.write_bytes(Path(folder) / f"{name}-{_short(content)}-{ms}{output.suffix}", content)


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
