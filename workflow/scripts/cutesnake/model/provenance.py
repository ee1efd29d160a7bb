"""What a record or page says of its own making: from what it was made, and a digest that shows later changes.

`made_from` has `code` and `params` (name -> digest), `versions` (distribution -> version), `files` (what the job was
given) and `opened` (what a kernel's `compile` opened besides), both as path -> digest of the content, and `made`, the
sha256 of other files that were written with the record.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cutesnake.model.catalog import label

RECORDS_OF_FOLDERS = ("pictures.json", "anatomy.json")  # which stand for all files of their folder
RESULTS = "results"
PAGE = re.compile(r"\n<!-- made from ([^\n]*) -->\n?\Z")
DIGITS = 16  # hex digits of a digest
CHANGED = "it is not what was written: its digest differs"

MadeFrom = dict[str, Any]
_making: list[MadeFrom] = []  # of the job that this process does


def made_from(recipe: Mapping[str, Any], files: Iterable[str | Path] | Mapping[str, str]) -> MadeFrom:
    """A recipe (`code`, `params`, `versions`) with the digests of the files that go in, as they are now.

    files: paths below results/, or name -> path: a name follows from where the project is, which the process that plans
    knows.
    """
    named = files if isinstance(files, Mapping) else {name_of(path): path for path in files}
    return {**recipe, "files": {name: digest_of(path) for name, path in named.items()}}


@contextlib.contextmanager
def making(
    recipe: Mapping[str, Any] | None = None, files: Iterable[str | Path] | Mapping[str, str] = ()
) -> Iterator[None]:
    """Have records and pages that are written meanwhile say what they were made from. Without a recipe they do not.

    The files' digests are taken at the start: a file that changes while it is used makes the result stale.
    """
    if recipe is None:
        yield
        return
    _making.append(made_from(recipe, files))
    try:
        yield
    finally:
        _making.pop()


def note_opened(files: Mapping[str, str | None]) -> None:
    """Have what is written from now on say that these files were opened: path -> digest, None for one not there."""
    if _making:
        _making[-1]["opened"] = dict(files)


def is_signed(entry: Mapping[str, Any]) -> bool:
    """Whether a record that is about to be written says what it was made from."""
    return bool(entry.get("provenance") is not None and (_making or entry["provenance"].get("made_from")))


def signed(entry: Mapping[str, Any], files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A record with what it was made from, where it does not say so itself, and its digest.

    `files` are others that were written with it: name -> sha256, see `digests`.
    """
    own = {name: entry["provenance"].get(name) for name in ("made_from", "digest")}
    provenance = {name: value for name, value in entry["provenance"].items() if name not in own}
    if own["made_from"]:
        provenance["made_from"] = own["made_from"]
    if _making:
        provenance.setdefault("made_from", _making[-1] | ({"made": dict(files)} if files else {}))
    return {**entry, "provenance": {**provenance, "digest": digest_of_data({**entry, "provenance": provenance})}}


def check(entry: Mapping[str, Any]) -> MadeFrom | None:
    """What a record was made from, None where it does not say; ValueError if it was changed since."""
    provenance = entry.get("provenance") or {}
    if provenance.get("digest"):
        bare = {name: value for name, value in provenance.items() if name != "digest"}
        if digest_of_data({**entry, "provenance": bare}) != provenance["digest"]:
            raise ValueError(CHANGED)
    found = provenance.get("made_from")
    return found if isinstance(found, dict) and provenance.get("digest") else None


def signed_page(text: str, files: Mapping[str, str] | None = None) -> str:
    """A page with a last line, a comment, that says the same of it."""
    if not _making:
        return text
    told = {
        "made_from": _making[-1] | ({"made": dict(files)} if files else {}),
        "digest": _sha256(text.rstrip().encode()),
    }
    comment = json.dumps(told, separators=(",", ":")).replace("--", "\\u002d\\u002d")
    return f"{text.rstrip()}\n<!-- made from {comment} -->\n"


def check_page(text: str) -> MadeFrom | None:
    """What a page was made from, None where it does not say; ValueError if it was changed since."""
    found = PAGE.search(text)
    if found is None:
        return None
    told = json.loads(found[1])
    if told["digest"] != _sha256(text[: found.start()].encode()):
        raise ValueError(CHANGED)
    return dict(told["made_from"])


def digests(paths: Iterable[Path | str], folder: Path | str) -> dict[str, str]:
    """sha256 of files, by their names below the folder of the record or page that is about to name them."""
    return {os.path.relpath(path, folder or "."): hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def digest_of(path: str | Path) -> str | None:
    """Digest of a file's content, or of the record of a folder; None where it is not there."""
    try:
        return _sha256(record_of(path).read_bytes())
    except OSError:
        return None


def record_of(path: str | Path) -> Path:
    """A file itself; of a folder that a stage makes, the file that stands for it."""
    path = Path(path)
    if path.suffix or not path.is_dir():
        return path
    return next((path / name for name in RECORDS_OF_FOLDERS if (path / name).exists()), path / RECORDS_OF_FOLDERS[-1])


@functools.lru_cache(maxsize=100_000)
def name_of(path: str | Path) -> str:
    """A file as records name it: below results/ as it is, else from the project or the folder of kernels it is in."""
    text = str(path)
    return text if text.startswith(f"{RESULTS}/") else label(Path(os.path.abspath(text)))


def digest_of_data(data: Any) -> str:
    """Digest of JSON data, whatever the order of its keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _sha256(text.encode(errors="surrogatepass"))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]
