"""The benchmark that holds times on two cards against those of each card alone: what it makes of the runs' records."""

import sys

from cutesnake.places import ROOT

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
