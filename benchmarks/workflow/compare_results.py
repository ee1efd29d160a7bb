"""Compare the records of two results folders: `python compare_results.py BEFORE NOW`.

Provenance and wall times of the run itself are left out; an absent key counts as null. Prints each difference and a
summary; exits with 1 if anything differs, if a record is in one folder only, or if there is none at all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LEFT_OUT = {"provenance", "seconds", "measuring_seconds", "peak_memory_bytes"}  # they differ from run to run
FOLDERS = {"log", "fetch", "store"}  # of no records, or of third-party files
MOST_SHOWN = 40


def records(folder: Path) -> dict[str, Path]:
    """Return the records of a results folder by their path below it."""
    paths = (path for path in sorted(folder.rglob("*.json")) if path.relative_to(folder).parts[0] not in FOLDERS)
    result = {path.relative_to(folder).as_posix(): path for path in paths}
    return result | {f"fetch/{path.parent.name}": path for path in sorted(folder.glob("fetch/*/fetched.json"))}


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Yield each place at which two JSON values differ, with both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now} - LEFT_OUT):
            yield from differences(before.get(key), now.get(key), f"{place}/{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (left, right) in enumerate(zip(before, now, strict=True)):
            yield from differences(left, right, f"{place}/{number}")
    elif before != now:
        yield f"{place or '/'}: {json.dumps(before)[:80]} before, {json.dumps(now)[:80]} now"


def compare(before: Path, now: Path) -> tuple[int, list[str]]:
    """Return how many records both folders have, and what differs."""
    left, right = records(before), records(now)
    shared = sorted({*left} & {*right})
    result = [f"{name}: only before" for name in sorted({*left} - {*right})]
    result += [f"{name}: only now" for name in sorted({*right} - {*left})]
    for name in shared:
        one, other = (json.loads(path.read_text()) for path in (left[name], right[name]))
        result += [f"{name}{difference}" for difference in differences(one, other)]
    return len(shared), result


def main(before: str, now: str) -> int:
    """Print the differences; return the exit status."""
    count, result = compare(Path(before), Path(now))
    print("\n".join(result[:MOST_SHOWN]))
    print(f"{count} records compared, {len(result)} differences")
    return 0 if count and not result else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
