"""Persistent kernels run again in a smaller grid, unless its size is a contract."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from snippets import kernel_text, run_kernel

import ptxsim
from ptxsim.core.small_grid import smaller_grid

# Each item is exchanged between two warps in shared memory; CTA c takes the items c, c + nctaid, …
PERSISTENT = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x; mov.u32 %r11, %r3;
ld.param.u64 %d1, [p0]; mad.lo.u32 %r5, %r2, 4, %r1; xor.b32 %r6, %r2, 32; mad.lo.u32 %r7, %r6, 4, %r1;
L: setp.ge.u32 %p1, %r3, 4; @%p1 bra E; mad.lo.u32 %r12, %r3, 16, %r11;
st.shared.u32 [%r5], %r12; bar.sync 0; ld.shared.u32 %r8, [%r7];
mad.lo.u32 %r9, %r3, 64, %r2; mul.wide.u32 %d2, %r9, 4; add.u64 %d2, %d1, %d2; MORE st.global.u32 [%d2], %r8;
LAST add.u32 %r3, %r3, %r4; bra L; E:"""


def run(last: str = "", more: str = "", grid: int = 4, **options: str) -> tuple[list[str], np.ndarray]:
    out = np.zeros((4, 64), np.uint32)
    body = PERSISTENT.replace("LAST", last).replace("MORE", more)
    result = run_kernel(body, out, threads=64, shared=256, grid=(grid,), checks=("race", "small-grid"), **options)
    return [finding.message for finding in result.findings if finding.kind == "race"], out


def test_a_buffer_that_the_next_item_overwrites_early_is_found_where_each_cta_has_one() -> None:
    messages, out = run()
    assert messages and all("in a grid of (1, 1, 1), not (4, 1, 1)" in message for message in messages)
    np.testing.assert_array_equal(out, 17 * np.arange(4)[:, None] + np.zeros((1, 64), int))  # what four CTAs wrote
    assert run("bar.sync 0;")[0] == []
    assert run(schedule="late")[0] == []  # one schedule has the second run
    assert "in a grid of" not in run(grid=1)[0][0]


@pytest.mark.parametrize(
    ("more", "cut"),
    [
        ("atom.global.add.u32 %r10, [%d1], 0; add.u32 %r8, %r8, %r10;", False),  # may count CTAs
        ("ld.relaxed.gpu.global.u32 %r10, [%d1];", False),  # may wait for another CTA
        ("st.global.u32 [%d2], %r4;", False),  # the grid's size is a result
        ("mad.lo.u32 %r10, %r4, 4, 0; mul.wide.u32 %d2, %r10, 1; add.u64 %d2, %d2, %d1;", False),  # or an address
        ("atom.global.max.u32 %r10, [%d1], 0;", True),  # nothing reads what it returns
    ],
)
def test_a_grid_whose_size_may_be_a_contract_is_not_made_smaller(more, cut) -> None:
    assert bool(run(more=more)[0]) == cut


@pytest.mark.parametrize(("preferred", "small"), [((1, 1, 1), 1), ((2, 1, 1), 2), ((4, 1, 1), 4)])
def test_a_smaller_grid_holds_one_preferred_cluster(preferred, small) -> None:
    """A kernel may divide %nctaid by that cluster's size; fewer CTAs would stride by 0."""
    module = ptxsim.Module.from_text(kernel_text(PERSISTENT.replace("LAST", "").replace("MORE", ""), 1, 256))
    launch = ptxsim.launch(module, "k", (4,), (64,), (np.zeros(256, np.uint32),), dynamic_shared=256)
    launch = dataclasses.replace(launch, attributes={"attribute_11": preferred})
    assert smaller_grid(launch) == (small, 1, 1)
