"""Short lists by coverage.

The fewest cases that reach every block which any of the full list reaches.
"""

from __future__ import annotations

import pytest

from builds import build
from cutesnake.model.catalog import load_operator
from cutesnake.planning.sweep import make_sweep, read_sweep
from cutesnake.stages.simulate.short_list import (
    Candidate,
    candidates,
    main,
    of_default_builds,
    places,
    reach,
    smallest,
    union,
)

WHERE = ("elementwise_add", "cute", "sm_100a")


def cases(*reached: str) -> dict[Candidate, frozenset]:
    """Cases that reach the blocks of these characters."""
    workload = load_operator("elementwise_add").Workload
    return {
        Candidate(workload(n + 1, 8), "randn"): frozenset(("v", "f", ord(c)) for c in characters)
        for n, characters in enumerate(reached)
    }


@pytest.mark.parametrize(
    ("reached", "rows"),
    [
        (("ab", "abc", "bc"), [2]),  # one has all
        (("ab", "bc", "cd", "ad"), [1, 3]),  # taking what reaches most next would do as well
        (("abcd", "abex", "cdfy", "exfy"), [1, 4]),  # of sets as small the first
        (("", ""), []),  # nothing ran
        (("ab", "cd", "ef", "gh", "a"), [1, 2, 3, 4]),  # more than are tried in all sets
    ],
)
def test_the_smallest_set_that_reaches_all_blocks_is_chosen(reached, rows) -> None:
    assert sorted(case.workload.rows for case in smallest(cases(*reached))) == rows


def test_what_is_chosen_one_after_another_has_no_needless_case() -> None:
    """The first one reaches most, and nothing that the others do not."""
    result = cases("abcdef", "abg", "cdh", "efi", "jk")
    chosen = smallest(result)
    assert sorted(case.workload.rows for case in chosen) == [2, 3, 4, 5]
    assert union(result[case] for case in chosen) == union(result.values())


def sweep_of(operator: str):
    return make_sweep(operator, read_sweep(operator, {}))


def test_all_kernels_of_an_operator_that_are_simulated_are_asked() -> None:
    gemm = places(sweep_of("gemm"), None, None)
    assert {("cutlass_sm90", "sm_90a"), ("tilegym", "sm_100a"), ("cutlass_dense", "sm_100a")} <= set(gemm)
    assert "torch_matmul" not in dict(gemm) and ("tilegym", "sm_90a") not in gemm
    assert ("tilegym", "sm_90a") in places(sweep_of("gemm"), "tilegym", "sm_90a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such"], "kernels/no_such/operator.py: there is no such operator"),
        (["gemm", "tilegim"], "kernels/gemm/tilegim.py: there is no such kernel"),
        (["gemm", "tilegym", "sm_90"], "there is no target 'sm_90'; one of sm_90a,"),
    ],
)
def test_a_wrong_name_on_the_command_line_is_one_line(monkeypatch, capsys, arguments, message) -> None:
    monkeypatch.setattr("sys.argv", ["short_list", *arguments])
    with pytest.raises(SystemExit):
        main()
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_builds_that_only_the_full_list_needs_are_told_apart() -> None:
    sweep = sweep_of("fmha")
    default = of_default_builds(sweep, ("cutlass_sm90", "sm_90a"))
    every = of_default_builds(sweep, ("cutlass_sm90", "sm_90a"), ("short", "full"))
    assert {"bf16_d128_64x128_none", "bf16_d128_64x128_causal"} <= default < every


@pytest.mark.slow
def test_the_short_list_reaches_what_the_full_one_does() -> None:
    sweep = make_sweep(WHERE[0], read_sweep(WHERE[0], {}))
    lists = {
        extent: {
            case: reach(*WHERE, case, lambda v: build(*WHERE, v)) for case in candidates(sweep, *WHERE[1:], extent)
        }
        for extent in ("short", "full")
    }
    full = union(lists["full"].values())
    assert full and not full - union(lists["short"].values())
    assert len(smallest(lists["full"])) < len(lists["full"])
