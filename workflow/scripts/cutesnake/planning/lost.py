"""What earlier runs made and is missing or damaged now: it is made again, with what follows from it.

Snakemake looks whether a file is there and when it was written; a file that is missing in the middle of the graph it
does without as long as what follows is there, and content it does not look at. So the files of the plan are looked at
when the graph is built, records against their schemas and everything against the journal of what was written. What was
found whole is remembered with its size and date, so that a look at twenty thousand results takes the time of asking for
their dates.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model import paths as places
from cutesnake.model import record

KNOWN = Path(".snakemake/cutesnake-whole.json")
SCHEMAS = "schemas"  # key of the digest of the schemas
SHOWN = 3  # findings that the line names
PAGES = ("compare", "plot", "page", "overview", "report")  # stages whose products say that a run came to its end
PICTURES = "pictures.json"


@dataclass(frozen=True)
class Product:
    """A file, or the folder of a stage that writes one, that the plan expects."""

    path: str
    stage: str  # of which it is the product, named like its schema where it is a record


def lost(products: Iterable[Product]) -> tuple[dict[str, str], list[str]]:
    """Products that have to be made again -> why, and those of them that are worth telling of.

    What is missing counts only once there is something that follows from it: before, it is not lost but to be made.
    Of what is missing, it is told if it was seen before.
    """
    products, known, written = list(products), _read_known(), record.written()
    finished = any(os.path.exists(product.path) for product in products if product.stage in PAGES)
    found: dict[str, str] = {}
    now: dict[str, Any] = {}
    for product in products:
        if not os.path.lexists(product.path):
            if finished and _is_missed(product):
                found[product.path] = "missing"
            if product.path in known:
                now[product.path] = None
            continue
        stamps = known.get(product.path)
        if not stamps or not _unchanged(stamps):
            try:
                stamps = {str(path): _stamp(_as_written(path, written)) for path in _whole_files(product)}
            except (OSError, ValueError) as error:
                found[product.path], stamps = _why(error, product.path), None
        now[product.path] = stamps
    if now != known:
        _write_known(now)
    return found, [path for path, why in found.items() if why != "missing" or path in known]


def remember(products: Iterable[Product]) -> None:
    """Note at the end of a run what is there, so that the next run can tell what was lost in between."""
    known = _read_known()
    record.rewrite_journal()
    paths = [product.path for product in products]
    there = {path: known.get(path) for path in paths if path in known or os.path.exists(path)}
    if there != known:
        _write_known(there)


def line(found: dict[str, str], told: list[str]) -> str:
    """One line on what is made again."""
    shown = [f"{path} ({found[path]})" for path in told[:SHOWN]]
    rest = [f"{len(told) - SHOWN} more"] if len(told) > SHOWN else []
    return f"made again, with what follows: {'; '.join([*shown, *rest])}"


def _is_missed(product: Product) -> bool:
    """Fetched sources are of use to builds only: a folder may be copied without them."""
    return product.stage != "fetch" or Path(product.path).parent.exists()


def _why(error: Exception, path: str) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{Path(error.filename or path).name} is missing"
    if isinstance(error, OSError):
        return f"{Path(error.filename or path).name}: {error.strerror or error}"
    return str(error).removeprefix(f"{path}: ").removesuffix("; delete it and run again")


def _whole_files(product: Product) -> Iterator[Path]:
    """The files of a product, each after it was looked at. OSError for one that is missing, ValueError for one that is
    damaged."""
    path = Path(product.path)
    if product.stage in ("plot", "overview"):
        drawn = record.read("plot", path / PICTURES).pictures
        yield path / PICTURES
        for picture in drawn:
            if picture.file:
                yield _ends(path / picture.file, b"</svg>")
    elif product.stage == "anatomy":
        index = path / "anatomy.json"
        yield index
        for build in record.read("anatomy_index", index).builds:
            record.read("anatomy", path / build.file)
            yield path / build.file
    elif product.stage == "anatomy_pages":
        for page in sorted(path.glob("*.html")):
            yield _ends(page, b"</html>")
    elif path.suffix == ".html":
        yield _ends(path, b"</html>")
    elif path.suffix != ".json":
        yield _ends(path, b"")
    else:
        entry = record.plain(record.read(product.stage, path))
        yield path
        for name, digest in entry["files"].items() if product.stage in ("compile", "fetch") else ():
            yield _has_digest(path.parent / name, digest)


def _ends(path: Path, mark: bytes) -> Path:
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 64))
        end = stream.read()
    if not end.rstrip(b" \n").endswith(mark) or not (mark or end.endswith(b"\n")):
        raise ValueError(f"{path.name} is cut short" if size else f"{path.name} is empty")
    return path


def _has_digest(path: Path, *digests: str) -> Path:
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() not in digests:
            raise ValueError(f"{path.name} is not the file that was made: its sha256 differs")
    return path


def _as_written(path: Path, written: dict[str, set[str]]) -> Path:
    digests = written.get(str(path))
    return path if not digests else _has_digest(path, *digests)


def _stamp(path: Path | str) -> list[int]:
    state = os.stat(path)
    return [state.st_mtime_ns, state.st_size]


def _unchanged(stamps: dict[str, list[int]]) -> bool:
    try:
        return all(_stamp(path) == stamp for path, stamp in stamps.items())
    except OSError:
        return False


def _read_known() -> dict[str, Any]:
    try:
        found = json.loads(KNOWN.read_text())
    except (OSError, ValueError, RecursionError):  # not there yet, or damaged: everything is looked at again
        return {}
    if not isinstance(found, dict) or found.pop(SCHEMAS, None) != _schemas():
        return {}
    return found if all(_is_stamps(entry) for entry in found.values()) else {}


def _is_stamps(entry: Any) -> bool:
    return entry is None or (isinstance(entry, dict) and all(isinstance(stamp, list) for stamp in entry.values()))


def _write_known(known: dict[str, Any]) -> None:
    if KNOWN.parent.is_dir():
        with contextlib.suppress(OSError):
            record.write_text(KNOWN, json.dumps({**known, SCHEMAS: _schemas()}))


@functools.cache
def _schemas() -> str:
    """What records are held against: one that fitted an older schema is looked at again."""
    texts = (path.read_bytes() for path in sorted(places.SCHEMAS.glob("*.json")))
    return hashlib.sha256(b"".join(texts)).hexdigest()
