"""Baselines: locate, identify, digest and read the records of an earlier run."""

import functools
import hashlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cutesnake.analysis.evidence.recorded_set import SUMMARY, files_of
from cutesnake.model import record
from cutesnake.model.paths import ROOT
from cutesnake.model.records.compile import Compile
from cutesnake.model.records.inspect import Inspect
from cutesnake.model.records.timing import Timing

IN_GIT = re.compile(r"(?P<commit>\w[\w./~^@{}-]*):(?P<folder>recorded/[\w-]+)/?")
RESULTS = ("timing", "inspect", "compile")  # subfolders of a results folder that are read
FORMS = "recorded/<device>, another results folder, or <commit>:recorded/<device>"


Before = Mapping[str, Timing | Inspect | Compile]  # name relative to the baseline -> record


class BaselineError(ValueError):
    """One-line error: a missing, invalid or damaged baseline."""


@dataclass(frozen=True)
class Baseline:
    """Location of records; `label` omits the machine's part of the path."""

    kind: Literal["recorded", "results", "commit"]
    label: str
    place: str  # a folder, or a commit's tree hash


def locate(text: str, own: Path | str = "results") -> Baseline:
    """Return the baseline that a configuration names; `own` is this run's results folder.

    Relative paths are resolved from the working directory, then from the project. Raises BaselineError.
    """
    if match := IN_GIT.fullmatch(text):
        return _in_git(match["commit"], match["folder"])
    folder = next((path for path in (Path(text).expanduser(), ROOT / text) if path.is_dir()), None)
    if folder is None:
        raise BaselineError(f"baseline {_label(text)}: no such folder; allowed: {FORMS}{_sets()}")
    if folder.resolve() == Path(own).resolve():
        raise BaselineError(
            f"baseline {_label(text)}: this is the run's own folder; copy it before the run and name the copy"
        )
    if (folder / SUMMARY).is_file():
        return Baseline("recorded", _label(text), str(folder))
    if any((folder / name).is_dir() for name in RESULTS):
        return Baseline("results", _label(text), str(folder))
    if any((folder / "results" / name).is_dir() for name in RESULTS):
        raise BaselineError(f"baseline {_label(text)}: the folder contains a results folder; name that folder")
    raise BaselineError(
        f"baseline {_label(text)}: neither a recorded set (no {SUMMARY}) nor a results folder "
        f"(no {', '.join(RESULTS)}); allowed: {FORMS}{_sets()}"
    )


def digest(baseline: Baseline, operator: str) -> str:
    """Return a digest of the names and contents that `read` reads."""
    total = hashlib.sha256()
    for name, content in _contents(baseline, operator):
        total.update(name.encode() + b"\0" + content + b"\0")
    return total.hexdigest()[:16]


def read(baseline: Baseline, operator: str) -> Before:
    """Return name -> record of an operator: timing, and in results also inspect and compile.

    Raises BaselineError with the file and line of a damaged record.
    """
    records: dict[str, Timing | Inspect | Compile] = {}
    for name, content in _contents(baseline, operator):
        lines = content.splitlines() if name.endswith(".jsonl") else [content]
        for number, line in enumerate(lines, 1):
            where = f"{name}#{number}" if name.endswith(".jsonl") else name
            try:
                records[where] = record.parse(re.split("[-/]", name)[0], line, where)
            except record.RecordError as error:
                raise BaselineError(f"baseline {baseline.label}: {error}; it may be from another version") from error
    return records


def _contents(baseline: Baseline, operator: str) -> list[tuple[str, bytes]]:
    """Return name and content of each of an operator's files, in order."""
    if baseline.kind == "commit":
        names = (_git("ls-tree", "--name-only", baseline.place) or b"").decode().splitlines()
        return [(name, _blob(baseline.place, name) or b"") for name in files_of(names, operator, "timing")]
    folder = Path(baseline.place)
    if baseline.kind == "recorded":
        paths = [folder / name for name in files_of((path.name for path in folder.iterdir()), operator, "timing")]
    else:
        paths = [path for stage in RESULTS for path in _files(folder / stage / operator, stage)]
    return [(path.relative_to(folder).as_posix(), path.read_bytes()) for path in paths]


def _files(folder: Path, stage: str) -> list[Path]:
    pattern = "build.json" if stage == "compile" else "*.json"
    return sorted(path for path in folder.rglob(pattern) if path.name != "roofline.json")


def _in_git(commit: str, folder: str) -> Baseline:
    resolved = _git("rev-parse", "--verify", "--quiet", "--short", f"{commit}^{{commit}}")
    if resolved is None:
        raise BaselineError(f"baseline {commit}:{folder}: unknown git commit {commit!r}")
    tree = _git("rev-parse", "--verify", "--quiet", f"{commit}:./{folder}")
    if tree is None or _blob(tree.decode().strip(), SUMMARY) is None:
        raise BaselineError(f"baseline {commit}:{folder}: the commit has no such recorded set{_sets()}")
    return Baseline("commit", f"{resolved.decode().strip()}:{folder}", tree.decode().strip())


@functools.cache
def _blob(tree: str, name: str) -> bytes | None:
    return _git("cat-file", "blob", f"{tree}:{name}")


def _git(*arguments: str) -> bytes | None:
    """Run git in the repository; return its output, or None on failure."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _label(text: str) -> str:
    """Return a relative path unchanged, else only the folder's name."""
    path = Path(text)
    return path.name if path.is_absolute() or {"..", "~"} & {part[:2] for part in path.parts} else path.as_posix()


def _sets() -> str:
    names = sorted(path.parent.name for path in (ROOT / "recorded").glob(f"*/{SUMMARY}"))
    return f"; available sets: {', '.join(f'recorded/{name}' for name in names)}" if names else ""
