"""Which operators a run plans, from its targets."""

import pytest

from cutesnake.planning.requested import operators

KNOWN = ["mla_decode", "gemm", "gemm_mixed"]
FRONT = "results/mla_report.html"


@pytest.mark.parametrize(
    ("targets", "planned"),
    [
        ([], ["mla_decode"]),
        ([FRONT], ["mla_decode"]),
        (["./results/mla_report.html"], ["mla_decode"]),
        (["results/report/gemm.html"], ["gemm"]),
        (["results/compile/gemm_mixed/cutile/sm_90a/int4/build.json", FRONT], ["mla_decode", "gemm_mixed"]),
        (["catalogue"], KNOWN),
        (["results/overview"], KNOWN),
        (["results/report/gemm.html", "compiled"], KNOWN),
        (None, KNOWN),
    ],
)
def test_a_run_plans_the_operators_of_its_targets(targets, planned) -> None:
    assert operators(targets, KNOWN, FRONT) == planned
