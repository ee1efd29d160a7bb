"""Sign records and pages: name their inputs, and detect later changes by digest.

`made_from` has `code` and `params` (name -> digest), `versions` (distribution -> version), `files` (what the job was
given) and `opened` (what a kernel's `compile` opened besides), both as path -> digest of the content, and `made`, the
sha256 of other files that were written with the record.
"""

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutesnake.model.catalog import label

RECORDS_OF_FOLDERS = ("pictures.json", "anatomy.json")  # which stand for all files of their folder
RESULTS = "results"
PAGE = re.compile(r"\n<!-- made from ([^\n]*) -->\n?\Z")
PLACEHOLDER = b"<!-- cutesnake: placeholder -->"  # see workflow/report/placeholder.html.j2
DIGITS = 16  # hex digits of a digest
CHANGED = "it is not what was written: its digest differs"

MadeFrom = dict[str, Any]
_making: list[MadeFrom] = []  # of the job that this process does


def now() -> str:
    """Return the time of making as records have it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def built() -> dict[str, str]:
    """Return the provenance of a record that needs no GPU."""
    machine = f"{platform.system()} {platform.machine()}"
    return {"created": now(), "python": platform.python_version(), "platform": machine}


def made_from(recipe: Mapping[str, Any], files: Iterable[str | Path] | Mapping[str, str]) -> MadeFrom:
    """Return a recipe (`code`, `params`, `versions`) with digests of its input files.

    files: paths below results/, or name -> path: a name follows from where the project is, which the process that plans
    knows.
    """
    named = files if isinstance(files, Mapping) else {name_of(path): path for path in files}
    return {**recipe, "files": {name: digest_of(path) for name, path in named.items()}}


@contextlib.contextmanager
def making(
    recipe: Mapping[str, Any] | None = None, files: Iterable[str | Path] | Mapping[str, str] = ()
) -> Iterator[None]:
    """Add provenance to records and pages written inside; without a recipe, add none.

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
    """Add opened files (path -> digest, None if missing) to records from now on."""
    if _making:
        _making[-1]["opened"] = dict(sorted(files.items()))


def is_signed(entry: Mapping[str, Any]) -> bool:
    """Return whether a record that is about to be written has provenance."""
    return bool(entry.get("provenance") is not None and (_making or entry["provenance"].get("made_from")))


def signed(entry: Mapping[str, Any], files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a record with its provenance, where it has none yet, and its digest.

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
    """Return a record's provenance, None without; ValueError if it was changed since."""
    provenance = entry.get("provenance") or {}
    if provenance.get("digest"):
        bare = {name: value for name, value in provenance.items() if name != "digest"}
        if digest_of_data({**entry, "provenance": bare}) != provenance["digest"]:
            raise ValueError(CHANGED)
    inputs = provenance.get("made_from")
    return inputs if isinstance(inputs, dict) and provenance.get("digest") else None


def signed_page(text: str, files: Mapping[str, str] | None = None) -> str:
    """Return a page with its provenance in a last line, a comment."""
    if not _making:
        return text
    line = {
        "made_from": _making[-1] | ({"made": dict(files)} if files else {}),
        "digest": _sha256(text.rstrip().encode()),
    }
    comment = json.dumps(line, separators=(",", ":")).replace("--", "\\u002d\\u002d")
    return f"{text.rstrip()}\n<!-- made from {comment} -->\n"


def check_page(text: str) -> MadeFrom | None:
    """Return a page's provenance, None without; ValueError if it was changed since."""
    comment = PAGE.search(text)
    if comment is None:
        return None
    line = json.loads(comment[1])
    if line["digest"] != _sha256(text[: comment.start()].encode()):
        raise ValueError(CHANGED)
    return dict(line["made_from"])


def read_page(path: Path) -> MadeFrom | None:
    """Return a page's provenance, None without; OSError or ValueError if damaged."""
    check_regular(path)
    text = path.read_text(encoding="utf-8")
    result = check_page(text)
    if result is None and not text.rstrip().endswith("</html>"):
        raise ValueError(f"{path.name} is {'cut short' if text else 'empty'}")
    return result


def is_placeholder(path: str | Path) -> bool:
    """Say whether a page is one that only says how to build it."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return PLACEHOLDER in stream.read(200)


def check_regular(path: Path) -> None:
    """Raise ValueError for a pipe or device, which may never end; OSError if missing."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path.name} is no regular file")


def digests(paths: Iterable[Path | str], folder: Path | str) -> dict[str, str]:
    """Return sha256 of files, by their names relative to the record's `folder`."""
    return {os.path.relpath(path, folder or "."): hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def digest_of(path: str | Path) -> str | None:
    """Return the digest of a file, or of a folder's record; None if missing."""
    try:
        return _sha256(record_of(path).read_bytes())
    except OSError:
        return None


def record_of(path: str | Path) -> Path:
    """Return the file itself, or the record that stands for a stage's folder."""
    path = Path(path)
    if path.suffix or not path.is_dir():
        return path
    return next((path / name for name in RECORDS_OF_FOLDERS if (path / name).exists()), path / RECORDS_OF_FOLDERS[-1])


@functools.lru_cache(maxsize=100_000)
def name_of(path: str | Path) -> str:
    """Return a file's name in records: below results/, or from its project or folder."""
    text = str(path)
    return text if text.startswith(f"{RESULTS}/") else label(Path(os.path.abspath(text)))


def digest_of_data(data: Any) -> str:
    """Return the digest of JSON data, whatever the order of its keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _sha256(text.encode(errors="surrogatepass"))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]
