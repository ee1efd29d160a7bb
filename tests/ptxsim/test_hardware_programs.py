"""Programs meant for a GPU run in the simulator and cover the census.

h200.json holds what the GPU reported: `python tests/ptxsim/hardware.py summary`.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from gpu_driver import same_nan
from handwritten import all_kernels
from hardware import PROGRAMS, simulate, simulated_product
from products import PRODUCTS, SPREADS

import ptxsim

CENSUS = Path(__file__).with_name("census.txt")
RESULTS = Path(__file__).with_name("h200.json")
CHUNKS = [PROGRAMS[n : n + 50] for n in range(0, len(PROGRAMS), 50)]


@pytest.mark.parametrize("chunk", CHUNKS, ids=[f"from {c[0].name[:40]}" for c in CHUNKS])
def test_programs_run(chunk) -> None:
    for program in chunk:
        buffers, findings = simulate(program)
        assert not findings, (program.name, str(findings[0]))
        before = [*program.sources(), program.poison()]
        same = all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(before, buffers, strict=True))
        assert not same, program.name


def opcodes(text: str) -> set[str]:
    return {x.op for kernel in ptxsim.Module.from_text(text).kernels.values() for x in kernel.instructions}


# opcodes of sm_90a in the census that only cuTile's kernels use; their TMA descriptors come from the driver
CUTILE = {
    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group.L2::cache_hint",
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
}


@pytest.mark.skipif(not CENSUS.exists(), reason="the census is part of the repository, not of the package")
def test_every_opcode_of_sm_90a_in_the_census_ran_on_the_card() -> None:
    # Ordinary ones in a generated program of their own, the rest in a whole kernel (h200.json).
    rows = [line.split(" | ") for line in CENSUS.read_text().splitlines() if line.startswith("| ")]
    census = {row[0].removeprefix("| ") for row in rows if "sm_90" in row[3]}
    assert len(census) > 150
    generated = set().union(*(opcodes(p.ptx()) for p in (*PROGRAMS, *PRODUCTS)))
    whole = set(json.loads(RESULTS.read_text())["opcodes"])
    special = re.compile(
        r"wgmma|cp\.async\.bulk|setmaxnreg|griddepcontrol|prefetch\.tensormap|.*::cluster|.*\.cluster|bra"
    )
    ordinary = {op for op in census if not special.match(op)}
    assert ordinary - generated == set()
    assert census - generated - whole == CUTILE


def test_what_the_card_said() -> None:
    """The committed results name every program and product that there is, and no difference."""
    message = json.loads(RESULTS.read_text())
    assert message["programs"] == f"{len(PROGRAMS)} of {len(PROGRAMS)} programs agree"
    assert set(message["products"]) == {p.name for p in PRODUCTS}
    assert all(x.startswith("0 of ") for x in message["products"].values())
    assert all(datetime.date.fromisoformat(message["dates"][part]) for part in ("ops", "products", "kernels"))
    assert {k.name for k in all_kernels()} <= set(message["kernels"])
    assert not [x for buffers in message["kernels"].values() for x in buffers.values() if x in ("DIFFERS", "ERROR")]


@pytest.mark.parametrize("product", PRODUCTS, ids=[p.name for p in PRODUCTS])
def test_products_are_still_the_cards(product) -> None:
    """Every bit of wgmma and mma.sync as an H200 computed it, NaN payloads aside."""
    digest = hashlib.sha256()
    for spread, seed in itertools.product(SPREADS, range(3)):
        words = simulated_product(product, spread, seed)
        digest.update(same_nan(words.reshape(-1), product.accumulator).tobytes())
    assert json.loads(RESULTS.read_text())["products"][product.name].endswith(digest.hexdigest()[:16])
