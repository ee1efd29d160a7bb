"""The notebooks of the reading paths run without a GPU, and exercises end as stated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from builds import UPSTREAM
from cutesnake.model.paths import ROOT
from cutesnake.report.learn.exercises import read_exercises
from cutesnake.stages.fetch import fetch
from kernels.upstream.examples import SOURCE


def run(path: str) -> dict[str, Any]:
    """Run the code cells of a notebook; return its names."""
    names: dict[str, Any] = {}
    for cell in json.loads((ROOT / f"docs/learn/path_{path}.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("path", ["a", "b", "c"])
def test_a_notebook_runs_and_its_exercise_ends_as_its_answer_says(path, monkeypatch) -> None:
    monkeypatch.chdir(ROOT / "docs/learn")  # where Jupyter runs a notebook
    fetch(SOURCE, ROOT / "results/fetch" / SOURCE, UPSTREAM)
    names = run(path)
    exercise = names["exercise"]
    assert exercise.path == path and exercise == read_exercises()[exercise.name]
    assert names["result"].outcome == exercise.outcome and names["result"].messages
