"""The benchmark that times a case in seven states of its machine: what it makes of the rows, and what it waits for."""

import sys
import threading
import time

from cutesnake.model.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/workflow"))

import beside_card

CASE = "dependent launch"


def row(number: int, state: str, us: float | None) -> dict:
    keys = (*beside_card.FIGURES, *beside_card.CLOCKS, "median_power_w", "temperature_c")
    about = {"round": number, "case": CASE, "state": state, "status": "ok" if us else "failed", "throttle_reasons": []}
    return about | dict.fromkeys(keys, us)


def test_a_state_is_held_against_alone_in_its_own_round() -> None:
    rows = [row(1, "alone", 10.0), row(1, "unwatched", 9.0), row(2, "unwatched", 22.0), row(2, "alone", 20.0)]
    found = beside_card.compared(rows)[f"{CASE}, hot_us"]
    assert found == {
        "alone": {"median": 15.0, "least": 10.0, "most": 20.0},
        "unwatched": {"median": 0.0, "least": -10.0, "most": 10.0},
    }


def test_a_failed_measurement_is_left_out_and_a_round_whose_lone_one_failed() -> None:
    rows = [row(1, "alone", 10.0), row(1, "unwatched", None), row(2, "alone", 10.0), row(2, "unwatched", 11.0)]
    assert beside_card.compared(rows)[f"{CASE}, hot_us"]["unwatched"]["least"] == 10.0
    more = [*rows, row(3, "alone", None), row(3, "unwatched", 99.0)]
    assert beside_card.compared(more) == beside_card.compared(rows)


def test_at_the_power_limit_time_times_clock_is_compared_as_well() -> None:
    """Only where the limit held the case back in every state; each figure goes with the clock of its own samples."""
    limit = {"throttle_reasons": ["software power cap"]}
    alone = row(1, "alone", 1020.0) | {"hot_sm_clock_mhz": 1620.0} | limit
    other = row(1, "beside cases", 950.0) | {"hot_sm_clock_mhz": 1740.0} | limit
    found = beside_card.compared([alone, other])
    assert found[f"{CASE}, hot_us"]["beside cases"]["median"] == -6.86
    assert found[f"{CASE}, hot_us times clock"]["beside cases"]["median"] == 0.04
    assert beside_card.compared([alone, other | {"throttle_reasons": []}]).keys() < found.keys()


def test_a_state_ends_when_the_case_on_the_other_card_has(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(beside_card, "SETTLE_SECONDS", 0.0)
    ended = []

    def measuring() -> None:
        while (tmp_path / "cases").exists():
            time.sleep(0.01)
        time.sleep(0.2)
        ended.append(True)
        (tmp_path / "busy").unlink()

    (tmp_path / "busy").touch()
    with beside_card.beside("beside cases", tmp_path):
        thread = threading.Thread(target=measuring)
        thread.start()
    assert ended and (tmp_path / "stop").exists()
    thread.join()
    with beside_card.beside("alone", tmp_path):
        assert not list(tmp_path.iterdir())
