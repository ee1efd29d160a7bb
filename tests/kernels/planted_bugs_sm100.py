"""Run every bug that `test_cute_sm100_mutants.py` plants in `cute_sm100`, and record how it is caught.

    PYTHONPATH=.:workflow/scripts:tests python tests/kernels/planted_bugs_sm100.py OUT.jsonl [--seconds S]

OUT gets a line of JSON for each bug and each intact copy; finished ones are not run again. `caught` is the
report of the first schedule with a finding. `of` names the last commits that changed the kernel and the simulator. A
bug takes some 30 s of a processor. Exits with 1 if a bug went unnoticed or anything was found in an intact copy.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import test_cute_sm100_mutants as mutants

from cutesnake.model.paths import ROOT

KERNEL, SIMULATOR = "kernels/mla_decode/cute_sm100", "ptxsim"
REPORTED = 240  # characters of what was found that are kept
INTACT = {f"nothing, {part}": (part, variant, None) for part, variant in mutants.INTACT}
BUGS = {name: (mutant.part, variant, mutant) for name, (mutant, variant) in mutants.EVERY.items()}


def tried(name: str, part: str, variant: str, mutant: mutants.Mutant | None) -> dict[str, Any]:
    """Build and run one case; return its line of OUT."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        how = mutants.caught(mutants.build_edited(place, part, variant, mutant), part, variant)
        how = how and how.replace(f"{place.resolve()}/", "").replace(f"{place}/", "")
    reported = None if how is None else how if len(how) <= REPORTED else how[: REPORTED - 1] + "…"
    return {"bug": name, "part": part, "variant": variant or mutants.NAMES[mutants.dtype_of(part)], "caught": reported}


def last_commit(path: str) -> str:
    """Return the last commit that changed `path`, marked where the checkout differs from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = "+changes" if git("status", "--porcelain", "--", path) else ""
    return git("log", "-1", "--format=%h", "--", path) + changed


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(out: Path, seconds: float = math.inf) -> list[str]:
    """Run what `out` lacks.

    Return the bugs that went unnoticed and the intact copies that were caught.
    """
    end, of = time.time() + seconds, {"kernel": last_commit(KERNEL), "simulator": last_commit(SIMULATOR)}
    done = {entry["bug"] for entry in read(out)}
    for name, case in {**INTACT, **BUGS}.items():
        if name in done or time.time() >= end:
            continue
        entry = {**tried(name, *case), "of": of}
        with out.open("a") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        print(name, "→", entry["caught"], flush=True)
    return [entry["bug"] for entry in read(out) if (entry["caught"] is None) != (entry["bug"] in INTACT)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Every planted bug of cute_sm100, in the simulator.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    values = parser.parse_args()
    return bool(run(values.out, values.seconds))


if __name__ == "__main__":
    sys.exit(main())
