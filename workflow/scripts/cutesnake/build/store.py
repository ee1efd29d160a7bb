"""What compilers made, kept by what went in: builds that share a device function share its compilation.

TileGym bakes the split of the keys into its kernels: the 22 builds that the default sweep needs of one of them hold
8 different split kernels and 7 different reductions. The store lies beside the builds; deleting it costs time only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

VARIABLE = "CUTESNAKE_STORE"  # the store's folder; without it everything is made anew


def reuse(output: Path, made_from: Iterable[bytes | str], make: Callable[[], object]) -> None:
    """Copy `output` from the store if it was made from the same parts before, else call `make`, which writes it.

    `made_from` must hold everything that determines the content: inputs, options, the tool and its version.
    """
    folder = os.environ.get(VARIABLE)
    if not folder:
        make()
        return
    digest = hashlib.sha256()
    for part in made_from:
        digest.update(hashlib.sha256(part if isinstance(part, bytes) else part.encode()).digest())
    kept = Path(folder) / f"{digest.hexdigest()}{output.suffix}"
    if kept.exists():
        shutil.copyfile(kept, output)
        return
    make()
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as stream:
        stream.write(output.read_bytes())
    Path(stream.name).replace(kept)
