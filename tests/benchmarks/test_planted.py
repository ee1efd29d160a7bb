"""Test the list of planted bugs and its records."""

import contextlib
import json

import pytest
import yaml

from benchmarks.planted.__main__ import FOLDER, RESULTS, planted
from planted import Place, check

LISTED = yaml.safe_load((FOLDER / "bugs.yaml").read_text())
RECORDED = json.loads(RESULTS.read_text())


def test_every_bug_has_a_record_and_every_other_record_is_gone():
    bugs = {(name, edit, line) for name, of in LISTED["bugs"].items() for edit, lines in of.items() for line in lines}
    assert {f"{name}: {edit} at {line}" for name, edit, line in bugs} == set(RECORDED)


@pytest.mark.slow
def test_a_run_says_what_the_record_says():
    operator, kernel, target, (workload,) = LISTED["kernels"]["reduce"]
    place = Place(operator, kernel, target, workload)
    text = (place.folder() / "kernel.ptx").read_text()
    for edit, line in ((edit, LISTED["bugs"]["reduce"][edit][0]) for edit in ("few bytes", "no cluster wait")):
        texts = {}
        for at in range(1, text.count("\n") + 1):
            with contextlib.suppress(ValueError):
                texts[at] = planted(text, **LISTED["edits"][edit], line=at)
        outcome = check(place, texts[min(texts, key=lambda at: abs(at - line))])  # compilers move code by some lines
        assert bool(outcome.findings) == bool(RECORDED[f"reduce: {edit} at {line}"]["found"])
    with pytest.raises(ValueError, match="line 1 has no"):
        planted(text, **LISTED["edits"]["no wait"], line=1)
