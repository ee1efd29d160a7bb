"""The benchmark that holds times on two cards against those of each card alone: what it makes of the runs' records."""

import sys

from cutesnake.model.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/workflow"))

import cards_times


def run(card: str, **warm: float) -> dict:
    return {"each": [{"stage": "timing", "case": case, "card": card, "hot_us": us} for case, us in warm.items()]}


def joined(*runs: dict) -> dict:
    return {"each": [job for one in runs for job in one["each"]]}


def one_round(first: dict[str, float], second: dict[str, float]) -> dict:
    """Two cases, each on a card of its own: their times beside the other, and alone."""
    return {
        "together": joined(run("a", x=first["x"]), run("b", y=first["y"])),
        "alone": {"a": run("a", x=second["x"]), "b": run("b", y=second["y"])},
    }


def test_a_figure_counts_by_the_median_of_its_rounds() -> None:
    rounds = [
        one_round({"x": 100.0, "y": 50.0}, {"x": 100.0, "y": 50.0}),
        one_round({"x": 105.0, "y": 51.0}, {"x": 100.0, "y": 50.0}),
        one_round({"x": 100.0, "y": 51.0}, {"x": 100.0, "y": 50.0}),
    ]
    found = cards_times.compared(rounds)
    assert found["median of the rounds"]["which"] == {"y, hot_us": 2.0}
    assert found["round 2"]["beyond 1.5 %"] == 2
    assert found["alone, round 2 against round 1, the same card"]["beyond 1.5 %"] == 0


def test_two_lone_measurements_are_compared_on_the_same_card_only() -> None:
    swapped = {
        "together": joined(run("b", x=100.0), run("a", y=50.0)),
        "alone": {"b": run("b", x=120.0), "a": run("a", y=50.0)},
    }
    found = cards_times.compared([one_round({"x": 100.0, "y": 50.0}, {"x": 100.0, "y": 50.0}), swapped])
    assert not any(name.startswith("alone") for name in found)


def test_where_the_power_limit_holds_a_case_back_its_time_times_clock_is_compared_as_well() -> None:
    """Of a case that it held back in all of its timings; of others the time alone counts."""

    def limited(us: float, mhz: float, reason: str = "software power cap") -> dict:
        timing = {"stage": "timing", "case": "x", "card": "a", "hot_us": us, "hot_sm_clock_mhz": mhz}
        return {"each": [timing | {"throttle_reasons": [reason] if reason else []}]}

    rounds = [{"together": limited(950.0, 1740.0), "alone": {"a": limited(1020.0, 1620.0)}}]
    found = cards_times.compared(rounds)
    assert found["median of the rounds"]["which"] == {"x, hot_us": -6.86}
    assert found["at the power limit"]["which"] == {"x, hot_us": -6.86}
    assert found["at the power limit, time times clock"]["largest"] == 0.04
    cooler = [{"together": limited(950.0, 1740.0, ""), "alone": {"a": limited(1020.0, 1620.0)}}]
    assert "at the power limit" not in cards_times.compared(cooler)
