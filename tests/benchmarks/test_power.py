"""The rule for the SM clock under a power limit."""

import statistics

import pytest

from benchmarks.prediction import power


@pytest.fixture(scope="module")
def unseen():
    return [row for row in power.clocks() if row.operator == power.TESTED]


@pytest.mark.parametrize("kind", ["warm", "cold"])
@pytest.mark.parametrize("device", ["h200", "h100"])
def test_clocks_that_the_fit_did_not_see_are_within_four_percent(unseen, kind, device):
    rows = [row for row in unseen if (row.kind, row.device) == (kind, device)]
    at_the_highest = statistics.median(100 * (1 / row.measured - 1) for row in rows)
    assert len(rows) > 50
    assert statistics.median(power.errors(rows)) < 4 < 8 < at_the_highest


def test_a_clock_settles_where_rate_and_rule_agree():
    base, slope = power.RULE["cold"]
    clock, microseconds = power.settle("cold", 60.0, 100.0, lambda share: 100.0 / share)
    assert clock == pytest.approx(1 - base - slope * 60.0 / microseconds, abs=1e-6)
    assert 100.0 < microseconds < 100.0 / (1 - base - slope * 0.6)
    bound_by_memory = power.settle("cold", 60.0, 100.0, lambda share: 100.0)
    assert bound_by_memory == pytest.approx((1 - base - slope * 0.6, 100.0))
