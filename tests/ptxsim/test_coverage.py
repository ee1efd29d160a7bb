"""What a run says that it exercised, and that it did not."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from snippets import run_kernel
from test_deadlock import PIPELINE, RELEASE


def covered(tiles: int):
    """Return the coverage of test_deadlock.py's pipeline over so many tiles."""
    body = PIPELINE.replace("FIRST", "1").replace("BYTES", "128").replace("RELEASE", RELEASE)
    body = body.replace("TURNS", str(tiles)).replace("%r9, 3;", f"%r9, {tiles};")
    result = run_kernel(body, np.zeros(64, np.uint32), threads=64, shared=512, schedule="late")
    assert result.ok
    return result.coverage[0]


@pytest.mark.parametrize("tiles", [1, 3])
def test_phases_of_a_ring_are_counted_and_one_that_never_flipped_is_named(tiles) -> None:
    result = covered(tiles).as_dict()
    assert [ring["turns"] for ring in result["rings"]] == [tiles, tiles]
    assert [ring["room"] for ring in result["rings"]] == [False, True]
    assert any("parity never flipped" in note for note in result["notes"]) == (tiles == 1)
    assert result["items"] == tiles


def test_blocks_that_did_not_run_are_not_counted_and_runs_add_up() -> None:
    body = """ld.param.u64 %d1, [p0]; ld.global.u32 %r1, [%d1];
    setp.eq.u32 %p1, %r1, 0; @%p1 bra E; add.u32 %r2, %r1, 1; E:"""
    some = run_kernel(body, np.zeros(4, np.uint32)).coverage[0]
    more = run_kernel(body, np.ones(4, np.uint32)).coverage[0]
    assert some.as_dict()["blocks"]["run"] < some.as_dict()["blocks"]["all"]
    some.merge(pickle.loads(pickle.dumps(more)))
    assert some.as_dict()["blocks"]["run"] == some.as_dict()["blocks"]["all"]


def test_a_coverage_leaves_its_instructions_to_the_process_that_receives_it() -> None:
    whole = covered(3)
    sent = pickle.loads(pickle.dumps(whole))
    assert sent.instructions == [] != whole.instructions
    sent.instructions = whole.instructions
    assert sent == whole
