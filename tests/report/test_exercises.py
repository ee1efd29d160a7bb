"""Exercises of the reading paths: thirty changed lines, and what ptxsim reports of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from builds import UPSTREAM
from cutesnake import learn
from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.model.paths import ROOT
from cutesnake.report.learn import exercises
from cutesnake.report.learn.goals import read_goals
from cutesnake.stages.fetch import fetch

EXERCISES = exercises.read_exercises()
FETCHED = ROOT / "results" / "fetch"
SOURCE = "one\ntwo = 2\ntwo = 3\n"


def example(**changes: object) -> exercises.Exercise:
    values = {"path": "a", "kernel": "gemm/cutlass_persistent", "workload": {}, "file": "f.py", "line": r"two = \d"}
    return exercises.Exercise(
        name="x", **{**values, "to": "pass", "ask": "?", "outcome": "right", "why": ".", **changes}
    )


def test_each_path_has_ten_exercises_with_kernels_of_its_steps() -> None:
    goals = read_goals(ROOT / exercises.FILE)
    assert Counter(exercise.path for exercise in EXERCISES.values()) == dict.fromkeys(goals.paths, 10)
    for exercise in EXERCISES.values():
        assert exercise.kernel in [step.kernel for step in goals.paths[exercise.path].steps]
        operator, kernel = exercise.kernel.split("/")
        assert load_kernel(operator, kernel).variants(make_workload(operator, exercise.workload), "sm_100a")


def test_one_line_changes_and_all_others_stay() -> None:
    assert example(nth=1).edited(SOURCE) == "one\ntwo = 2\npass\n"
    with pytest.raises(exercises.ExerciseError, match="has 2 lines"):
        example(nth=2).edited(SOURCE)


def test_the_copy_of_the_wheel_has_the_edited_file_alone_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "wheel/a/b").mkdir(parents=True)
    for name in ("a/b/edited.py", "a/b/other.py", "a/more.py"):
        (tmp_path / "wheel" / name).write_text("old")
    exercises._mirror(tmp_path / "wheel", tmp_path / "copy", "a/b/edited.py", "new")
    assert (tmp_path / "copy/a/b/edited.py").read_text() == "new"
    assert (tmp_path / "copy/a/b/other.py").read_text() == (tmp_path / "copy/a/more.py").read_text() == "old"
    assert (tmp_path / "wheel/a/b/edited.py").read_text() == "old"


def test_an_unknown_exercise_is_named_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert learn.main(["check", "nothing"]) == 2
    assert "release_dropped" in capsys.readouterr().err


def test_a_page_hides_the_result_until_it_is_asked_for() -> None:
    exercise = example(line="two = 2")
    page = exercises.render([(exercise, SOURCE, exercises.Result("hangs", ["deadlock"]))], "title", "back")
    assert page.index("<details>") < page.index("deadlock") < page.index("</details>")


def test_who_waits_is_read_off_the_message_of_a_deadlock() -> None:
    barrier = "mbarrier at shared offset {} of CTA 0 (phase 0, 1 of 1 arrivals open), waiting for parity 0, at PTX line"
    message = (
        f"schedule random: deadlock: nobody arrived at {barrier.format(64)} 3 (a/b.py:9); waiting: "
        f"CTA (0, 0, 0) warps 1..3 for {barrier.format(64)} 800 (a/b.py:261) (warp 0 owes); "
        f"CTA (0, 0, 0) warps 0..0 for {barrier.format(32)} 301 (b.py:219) (kernel, PTX line 3, a/b.py:9, warp 1)"
    )
    result = exercises.Result("hangs", [message])
    assert result.waits == [
        ("CTA (0, 0, 0), warps 1-3", "mbarrier at shared offset 64 of CTA 0", "b.py:261"),
        ("CTA (0, 0, 0), warp 0", "mbarrier at shared offset 32 of CTA 0", "b.py:219"),
    ]
    page = exercises.render([(example(line="two = 2"), SOURCE, result)], "title", "back")
    assert page.index("who waits") < page.index("b.py:261</td>") < page.index("b.py:219</td>")
    assert exercises.Result("races", ["race: a read"]).waits == []


def tried(name: str, tmp_path: Path) -> exercises.Result:
    fetch("flashinfer-python", FETCHED / "flashinfer-python", UPSTREAM)
    exercise = EXERCISES[name]
    text = exercises.fetched_source(exercise, FETCHED)
    return exercises.run(exercise, exercise.edited(text), FETCHED, tmp_path / "work")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["release_dropped", "two_stages", "accumulate_never_set", "grid_wait_dropped"])
def test_an_exercise_ends_as_its_answer_says(name: str, tmp_path: Path) -> None:
    assert tried(name, tmp_path).outcome == EXERCISES[name].outcome


@pytest.mark.by_hand
@pytest.mark.slow
@pytest.mark.parametrize("name", EXERCISES)
def test_each_exercise_ends_as_its_answer_says(name: str, tmp_path: Path) -> None:
    assert tried(name, tmp_path).outcome == EXERCISES[name].outcome
