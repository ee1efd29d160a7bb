"""The benchmark that times cases on two cards without Snakemake: where its cases come from, and what a round is."""

import json
import sys

import pytest

from cutesnake.model.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/workflow"))

import beside_card
import cards_straight
import cards_times

RECORD = ROOT / "benchmarks/workflow/cards_straight_h200.json"


class Pretended:
    """In place of the process of a card: notes when it is asked for its cases."""

    def __init__(self, card: str, asked: list[str]) -> None:
        self.card, self.asked = card, asked

    def times(self) -> dict:
        self.asked.append(self.card)
        return {"each": [{"stage": "timing", "case": self.card, "card": self.card, "hot_us": 8.0}], "seconds": 1.0}


def test_a_round_is_both_cards_at_once_and_then_each_alone() -> None:
    asked: list[str] = []
    found = cards_straight.one_round([Pretended("a", asked), Pretended("b", asked)])
    assert sorted(asked[:2]) == ["a", "b"] and asked[2:] == ["a", "b"]
    assert [job["card"] for job in found["together"]["each"]] == ["a", "b"]
    assert cards_times.compared([found])["round 1"]["figures"] == 2


def test_every_case_has_the_parameters_that_were_recorded_for_it(tmp_path, monkeypatch) -> None:
    keys = cards_times.CASES.read_text().split()
    for key in keys:
        build = tmp_path / key.rpartition("/")[0] / "build.json"
        build.parent.mkdir(parents=True, exist_ok=True)
        build.write_text(json.dumps({"variant": {"params": {"a": 1}}}))
    monkeypatch.setattr(beside_card, "BUILDS", tmp_path)
    found = cards_straight.cases_of(keys)
    assert {key: case.name for key, case in found.items()} == {key: key for key in keys}
    with pytest.raises(SystemExit, match="no timing of fmha/none"):
        cards_straight.cases_of(["fmha/none"])


def test_the_recorded_comparison_is_what_its_rounds_give_and_keeps_the_goal_below_the_power_limit() -> None:
    record = json.loads(RECORD.read_text())
    assert cards_times.compared(record["rounds"]) == record["compared"]
    limited = {key.rpartition(", ")[0] for key in record["compared"]["at the power limit"]["which"]}
    for part in ("median of the rounds", "round 1", "round 2"):
        beyond = {key.rpartition(", ")[0] for key in record["compared"][part]["which"]}
        cases = [job for one in record["rounds"] for job in one["together"]["each"] if job["case"] in beyond]
        assert all(job["throttle_reasons"] == ["software power cap"] for job in cases)
    assert limited and record["compared"]["median of the rounds"]["beyond 1.5 %"] == 3
