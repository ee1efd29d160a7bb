"""The benchmark that tells when a card is faster and what another process does then: what it makes of its rows."""

import json
import subprocess
import sys

import pytest

from cutesnake.model.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks/workflow"))

import beside_card_moments as moments

SCRIPT = ROOT / "benchmarks/workflow/beside_card_moments.py"
ACT = {"act": "driver", "round": 1, "moments": {"starts": 1.0, "initializes": 1.2, "has initialized": 1.4, "ends": 2.0}}


def rows(*fast: int, slow: float = 8.5) -> list[list[float]]:
    """Three seconds of rows of ten milliseconds, of which those with these numbers are fast."""
    return [[number / 100, 8.13 if number in fast else slow] for number in range(300)]


def test_an_episode_has_its_length_and_the_moments_before_and_after_its_begin() -> None:
    (found,) = moments.episodes([ACT], rows(*range(138, 143)))
    assert found["seconds"] == pytest.approx(0.05) and found["rows"] == 5
    assert found["percent"] == round(100 * (8.13 / 8.5 - 1), 2)
    assert (found["act"], found["behind"], found["by_seconds"]) == ("driver", "initializes", 0.18)
    assert (found["before"], found["ahead_by_seconds"]) == ("has initialized", 0.02)


def test_single_rows_of_the_usual_time_do_not_cut_an_episode_and_many_do() -> None:
    assert [one["rows"] for one in moments.episodes([ACT], rows(150, 151, 153, 170))] == [3, 1]


def test_a_row_a_little_faster_than_usual_is_no_episode() -> None:
    assert moments.episodes([ACT], rows(slow=8.5)[:150] + rows(slow=8.4)[150:]) == []


def test_fast_rows_are_counted_in_the_part_of_an_act_that_they_fall_into() -> None:
    found = moments.told([ACT], rows(139, 140, 141))
    assert {part: found["counted"][f"driver: {part}"]["fast"] for part in ("starts", "initializes")} == {
        "starts": 0,
        "initializes": 1,
    }
    assert found["counted"]["driver: has initialized"]["fast"] == 2
    assert found["counted"]["fast"] == 3 and found["counted"]["rows"] == 300
    assert [row[0] for row in found["rows around episodes"]] == [n / 100 for n in range(136, 145)]


def test_a_whole_run_is_made_short(tmp_path) -> None:
    whole = {"device": "NVIDIA H200", "acts": [ACT], "rows": rows(139)}
    command = [sys.executable, str(SCRIPT), "short", str(tmp_path / "short.json")]
    subprocess.run(command, input=json.dumps(whole), text=True, check=True)
    found = json.loads((tmp_path / "short.json").read_text())
    assert found == {"device": "NVIDIA H200", **moments.told([ACT], rows(139))}


def test_the_run_that_is_recorded_has_one_episode_for_each_act_that_its_document_names() -> None:
    found = json.loads((SCRIPT.parent / "beside_card_moments_h200.json").read_text())
    begun = [(one["act"], one["round"]) for one in found["episodes"] if one["act"]]
    named = ("driver", "context", "memory", "same card", "case")
    assert begun == [(one["act"], one["round"]) for one in found["acts"] if one["act"] in named]
