"""Which cases are predicted before a GPU has timed them.

The rule, and that nobody can choose.
"""

import random

from benchmarks.prediction import draw
from cutesnake.planning.sweep import make_sweep, read_sweep


def test_a_seed_draws_the_same_cases_again_and_none_that_is_known() -> None:
    sweep = make_sweep("reduce", read_sweep("reduce", {}))

    def drawn(seed: int) -> list[str]:
        chance = random.Random(seed)
        return [case.name for case in (draw.draw(sweep, chance) for _ in range(20)) if case is not None]

    assert drawn(5) == drawn(5) != drawn(6)
    first = next(draw.cases(5, 1, set()))
    assert next(draw.cases(5, 1, {first.name})).name != first.name


def test_what_is_drawn_fits_its_kernel_and_stays_small() -> None:
    for case in draw.cases(5, 20, set()):
        operator, module = draw.load_operator(case.operator), draw.load_kernel(case.operator, case.kernel)
        workload = operator.Workload(**case.parameters)
        assert module.DSL in draw.DSLS and module.supports(workload) is None
        assert case.variant["id"] in [variant.id for variant in module.variants(workload, draw.TARGET)]
        cost = operator.cost(workload)
        assert cost.flops <= draw.MOST_FLOPS and cost.bytes <= draw.MOST_BYTES
