"""Run shipped kernels before and after a fix in ptxsim: `python -m benchmarks.museum` writes wheels.json.

It downloads pinned wheels into results/museum/ and takes ten minutes on one core.
"""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cutesnake.stages.fetch import fetch

FOLDER = Path(__file__).parent
SCHEDULES = ("eager", "late", "tma_late", "mma_late", "random")
SGLANG = "https://github.com/sgl-project/sglang/"
WAIT = "cute.arch.mbarrier_wait(bar_tmem_alloc, 0) BEFORE cute.arch.mbarrier_arrive(bar_tmem_alloc)  # phase 1"
KNOWN_IN_MLA = (
    r"^race: .* writes shared offset 231\d\d\d of CTA|^exit: the tensor pipe",
    "two more faults, which NVIDIA's FP8 MLA decode has too: a race in the exchange buffer, and an exit before the "
    "last commit arrives ([faults](ptxsim/validation.md#faults-in-nvidias-kernels))",
)


class Side(NamedTuple):
    """A version of a kernel: file of pins, and a line added at run time."""

    wheels: str
    added: str = ""


@dataclass(frozen=True)
class Pair:
    """A kernel before and after a fix.

    place: pattern of the source lines that the fix changes. known: pattern of findings that are no part of the bug, and
    why they are made.
    """

    title: str
    upstream: tuple[str, ...]
    package: str
    call: str
    file: str
    area: str
    before: Side
    after: Side
    place: str
    known: tuple[str, str] = ("(?!)", "")
    missed: str = ""


PAIRS = {
    "flashinfer_mla_decode_fp8": Pair(
        "A fast warp arrives at a named barrier for its next work item before its partner has passed",
        ("https://github.com/flashinfer-ai/flashinfer/pull/4178",),
        "flashinfer-python",
        "test_flashinfer_mla",
        "flashinfer/cute_dsl/attention/monolithic/mla_decode_fp8.py",
        "hang",
        Side("before"),
        Side("after"),
        r"softmax_order_bar_\d\.arrive",
        KNOWN_IN_MLA,
    ),
    "sglang_gemm_no_barrier_at_the_end": Pair(
        "No cluster barrier at the end of a kernel of CTA pairs",
        (f"{SGLANG}issues/32907", f"{SGLANG}pull/32954"),
        "sglang",
        "test_sglang_gemm",
        "sglang/kernels/ops/gemm/cutedsl_bf16_gemm.py",
        "ordering",
        Side("before", WAIT),
        Side("after", WAIT),
        r"dealloc_tmem\(",
        missed="as for `pair_freed_after_peer_exit`",
    ),
    "sglang_gemm_follower_arrives_twice": Pair(
        "The follower's MMA warp arrives for two phases without waiting for the first",
        (f"{SGLANG}blob/v0.5.23/python/sglang/kernels/ops/gemm/cutedsl_bf16_gemm.py",),
        "sglang",
        "test_sglang_gemm",
        "sglang/kernels/ops/gemm/cutedsl_bf16_gemm.py",
        "ordering",
        Side("after"),
        Side("after", WAIT),
        r"mbarrier_arrive\(bar_tmem_alloc\)  # phase 1",
    ),
}


class Reported(NamedTuple):
    """A finding as the pytest plugin prints it."""

    kind: str
    message: str
    line: int | None


def reported(pair: Pair, side: Side, schedule: str, root: Path) -> list[Reported]:
    """Return the findings of one run; raise SystemExit if the call itself failed."""
    folder = root / side.wheels / pair.package
    fetch(pair.package, folder, FOLDER / f"{side.wheels}.yaml")
    environment = os.environ | {"PTXSIM": "1", "CUTE_DSL_ARCH": "sm_100a", "CUTE_DSL_LINEINFO": "1"}
    environment |= {"WHEEL": str(folder.resolve()), "ADDED": side.added}
    command = [sys.executable, "-m", "pytest", "-pptxsim.pytest_plugin", "-q", "-p", "no:cacheprovider"]
    command += ["-o", f"ptxsim_schedule={schedule}", f"{FOLDER / 'calls.py'}::{pair.call}"]
    out = subprocess.run(command, env=environment, capture_output=True, text=True).stdout
    if not re.search(r"^ptxsim: \d+ launches", out, re.M) or re.search(r"^E   (?!.*Failed)\w+Error", out, re.M):
        raise SystemExit(f"{pair.call} of {pair.package}, {side.wheels}: {out[-2000:]}")
    matches = re.findall(r"^([a-z-]+(?: lanes)?): (.*)\n    (?:its line |\S*:)(\d+), PTX line", out, re.M)
    return [Reported(kind, message, int(line)) for kind, message, line in matches if kind != "ptxsim"]


def record(pair: Pair, root: Path) -> dict[str, Any]:
    """Run both sides under the schedules; return what docs/bugs.md shows of them."""
    start = time.perf_counter()
    known, explained = pair.known
    first: list[Reported] = []
    for schedule in SCHEDULES:
        first = [
            x for x in reported(pair, pair.before, schedule, root) if not re.search(known, f"{x.kind}: {x.message}")
        ]
        if first:
            break
    seconds = time.perf_counter() - start
    after = [x for schedule in SCHEDULES for x in reported(pair, pair.after, schedule, root)]
    rest = [x for x in after if not re.search(known, f"{x.kind}: {x.message}")]
    source = (root / pair.before.wheels / pair.package / pair.file).read_text().split("\n")
    places = [n for n, line in enumerate(source, 1) if re.search(pair.place, line)]
    distances = [abs(x.line - n) for x in first for n in places if x.line is not None]
    return {
        "title": pair.title,
        "upstream": list(pair.upstream),
        "file": Path(pair.file).name,
        "area": pair.area,
        "from": "wheels",
        "found": bool(first),
        "missed": "" if first else pair.missed,
        "kinds": sorted({x.kind for x in first}),
        "schedule": schedule if first else "",
        "distance": min(distances, default=None),
        "seconds": round(seconds, 1),
        "after": sorted({f"{x.kind}: {x.message[:160]}" for x in rest}),
        "explained": explained if len(rest) < len(after) else "",
    }


def main() -> None:
    """Write the records of the named pairs, or of all, into wheels.json."""
    path = FOLDER / "wheels.json"
    records = json.loads(path.read_text()) if path.exists() else {}
    for name in sys.argv[1:] or PAIRS:
        records[name] = record(PAIRS[name], Path("results/museum"))
        print(json.dumps({name: records[name]}, indent=1), flush=True)
        path.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
