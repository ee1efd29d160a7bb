"""Every bug that `tests/test_cute_sm100_mutants.py` plants in `cute_sm100`, built and run; and how each is caught.

    python benchmarks/mla_cute_sm100/planted_bugs.py OUT.jsonl [--seconds S]

OUT gets a line of JSON a bug, and one for each of the intact copies, which nothing may be found in; what stands there
is not run again. `caught` is what the first schedule that noticed anything said.
`of` names the last commits that touched the kernel and the simulator. Some 30 s of a processor each. Exits with 1 if a
bug went unnoticed, or an intact copy was caught.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow/scripts"), str(ROOT / "tests"), str(ROOT / "benchmarks/mla_cute_sm100")]

from beside_nvidia import last_commit, read  # noqa: E402

import test_cute_sm100_mutants as mutants  # noqa: E402

KERNEL, SIMULATOR = "kernels/mla_decode/cute_sm100", "ptxsim"
TOLD = 240  # letters of what was found that are kept
SAME = "import cutlass"
INTACT = {f"nothing, {file}": (file, SAME, SAME, variant) for file, variant in mutants.INTACT}


def tried(name: str, file: str, old: str, new: str, variant: str) -> dict[str, Any]:
    """A line of OUT."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        how = mutants.caught(mutants.build_edited(place, file, old, new, variant), file, variant)
        how = how and how.replace(f"{place.resolve()}/", "").replace(f"{place}/", "")
    told = None if how is None else how if len(how) <= TOLD else how[: TOLD - 1] + "…"
    return {"bug": name, "file": file, "variant": variant or mutants.NAMES[mutants.dtype_of(file)], "caught": told}


def main() -> int:
    parser = argparse.ArgumentParser(description="Every planted bug of cute_sm100, in the simulator.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=math.inf)
    given = parser.parse_args()
    end, of = time.time() + given.seconds, {"kernel": last_commit(KERNEL), "simulator": last_commit(SIMULATOR)}
    done = {entry["bug"] for entry in read(given.out)}
    for name, mutant in {**INTACT, **mutants.EVERY}.items():
        if name in done or time.time() >= end:
            continue
        entry = {**tried(name, *mutant), "of": of}
        with given.out.open("a") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        print(name, "→", entry["caught"], flush=True)
    return any((entry["caught"] is None) != (entry["bug"] in INTACT) for entry in read(given.out))


if __name__ == "__main__":
    sys.exit(main())
