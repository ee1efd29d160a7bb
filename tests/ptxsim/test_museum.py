"""The records of shipped bugs that docs/bugs.md shows are true."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ptxsim
from ptxsim.museum import CHECKED, exhibits
from ptxsim.museum.__main__ import main

RECORDS = Path(__file__).parents[2] / "benchmarks/museum/small_kernels.json"
EXHIBITS = exhibits()


@pytest.mark.skipif(not RECORDS.exists(), reason="this is not the repository")
@pytest.mark.parametrize("name", EXHIBITS)
def test_the_record_of_a_pair_is_what_ptxsim_finds(name) -> None:
    recorded, now = json.loads(RECORDS.read_text())[name], EXHIBITS[name].record()
    assert now | {"seconds": 0} == recorded | {"seconds": 0}
    assert not now["after"] and now["found"] != bool(now["missed"])


@pytest.mark.skipif(not RECORDS.exists(), reason="this is not the repository")
def test_most_small_kernels_with_a_bug_of_order_or_bounds_are_found() -> None:
    records = json.loads(RECORDS.read_text())
    assert records.keys() == EXHIBITS.keys()
    checked = [x["found"] for x in records.values() if x["area"] in CHECKED]
    assert sum(checked) >= 0.9 * len(checked)


@pytest.mark.parametrize("name", ["ldmatrix_then_copy", "stage_released_without_proxy_fence"])
@pytest.mark.parametrize("faulty", [True, False])
def test_read_fence_asks_for_a_proxy_fence_between_loads_and_a_copy(name, faulty) -> None:
    exhibit = EXHIBITS[name]
    checks = (*ptxsim.DEFAULT_CHECKS, "read-fence")
    messages = [x.message for x in ptxsim.run(exhibit.launch(faulty, exhibit.arguments()), checks=checks).findings]
    assert [x.endswith(": no fence.proxy.async lies between them") for x in messages] == [True] * faulty


def test_a_pair_is_shown_as_a_diff_with_its_messages(capsys) -> None:
    assert main(["tensor_memory_freed_early"]) == 0
    text = capsys.readouterr().out
    assert " +   bar.sync 0;" in text and "frees tensor-memory" in text.split("before the fix:")[1]
    assert text.endswith("after the fix:\n  nothing\n")
    assert main(["no_such"]) == 2
