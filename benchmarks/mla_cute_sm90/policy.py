"""What it is worth that the L2 drops the pages of a cache first: the default variant of each workload, either way.

    python benchmarks/mla_cute_sm90/policy.py BUILDS RECORD.json

BUILDS is a folder with compile/, as `measure.py build` or the workflow makes it. Needs an H100 or H200. Each workload
of `groups.py` is bound four times, twice with pages kept and twice with pages dropped first, whatever the kernel's
`page_policy` would choose, and timed in turn as there, warm and cold. RECORD.json gets a row for each workload, with
the means of the two; `scatter` is by how much two bindings of one policy differ.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path[:0] = [str(Path(__file__).parent)]

import groups  # noqa: E402

from kernels.mla_decode import cute_sm90  # noqa: E402
from kernels.mla_decode.cute_sm90 import l2, layout  # noqa: E402
from kernels.mla_decode.operator import Workload, make_inputs, make_outputs, request_lengths  # noqa: E402

POLICIES = {"kept": layout.KEEP, "dropped": layout.EVICT_FIRST}
BANDS = ((25e6, "to 25 MB"), (100e6, "25 to 100 MB"), (200e6, "100 to 200 MB"), (float("inf"), "over 200 MB"))


def measure(builds: Path, work: Workload, turns: int = 12) -> dict[str, Any]:
    import torch

    inputs, outputs, stream = make_inputs(work, 1, "cuda"), make_outputs(work, "cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    name = cute_sm90.variants(work, "sm_90a")[0].id
    bound = {}
    for again in (0, 1):
        for title, policy in POLICIES.items():
            with patch.object(l2, "page_policy", lambda *_, policy=policy: policy):
                bound[title, again] = groups.bind(name, builds, work, inputs, outputs, stream)
    groups.in_turn(bound, stream, turns)
    return row(work, name, {key: (statistics.median(b.warm), statistics.median(b.cold)) for key, b in bound.items()})


def row(work: Workload, variant: str, times: dict[tuple[str, int], tuple[float, float]]) -> dict[str, Any]:
    """A row of the record from warm and cold microseconds of each policy's two bindings."""
    size = sum(request_lengths(work)) * layout.WIDTH * 2
    found = {
        "workload": work.id,
        "variant": variant,
        "megabytes": round(size / 1e6),
        "band": next(title for most, title in BANDS if size < most),
        "row_blocks": -(-work.heads * work.query_tokens // layout.ROWS),
    }
    for place, kind in enumerate(("warm", "cold")):
        for title in POLICIES:
            two = [times[title, again][place] for again in (0, 1)]
            found[f"{title}_{kind}_us"] = round(statistics.mean(two), 3)
            found[f"{title}_{kind}_scatter"] = round(max(two) / min(two) - 1, 4)
    return found


def main(builds: Path, record: Path) -> None:
    import torch

    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "rows": []}
    for work in {work.id: work for group in groups.GROUPS.values() for work in group}.values():
        found["rows"].append(one := measure(builds, work))
        ratios = [one[f"dropped_{kind}_us"] / one[f"kept_{kind}_us"] for kind in ("warm", "cold")]
        print(f"{one['workload']} {one['variant']} {one['megabytes']} MB: warm {ratios[0]:.3f}, cold {ratios[1]:.3f}")
        record.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
