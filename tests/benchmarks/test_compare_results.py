"""The comparison of two results folders: provenance does not count, anything else does."""

import importlib.util
import json

import pytest

from cutesnake.model.paths import ROOT

SPEC = importlib.util.spec_from_file_location("compare_results", ROOT / "benchmarks/workflow/compare_results.py")
compare_results = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(compare_results)

ENTRY = {"stage": "timing", "provenance": {"created": "1"}, "seconds": 1.0, "metrics": {"cold_us": 2.0, "flags": []}}


def laid_out(folder, **records):
    for name, entry in records.items():
        (folder / "timing").mkdir(parents=True, exist_ok=True)
        (folder / "timing" / f"{name}.json").write_text(json.dumps(entry))
    return folder


@pytest.mark.parametrize(
    ("now", "result"),
    [
        ({"a": {**ENTRY, "provenance": {"created": "2"}, "seconds": 9.0, "again": None}}, []),
        ({"a": {**ENTRY, "metrics": {"cold_us": 3.0, "flags": []}}},
         ["timing/a.json/metrics/cold_us: 2.0 before, 3.0 now"]),
        ({"a": {**ENTRY, "metrics": {"cold_us": 2.0, "flags": ["x"]}}},
         ['timing/a.json/metrics/flags: [] before, ["x"] now']),
        ({"a": ENTRY, "b": ENTRY}, ["timing/b.json: only now"]),
        ({"b": ENTRY}, ["timing/a.json: only before", "timing/b.json: only now"]),
    ],
)  # fmt: skip
def test_what_differs_is_named(tmp_path, now, result) -> None:
    before, after = laid_out(tmp_path / "before", a=ENTRY), laid_out(tmp_path / "now", **now)
    assert compare_results.compare(before, after)[1] == result
    assert compare_results.main(str(before), str(after)) == bool(result)


def test_nothing_to_compare_is_a_failure(tmp_path) -> None:
    assert compare_results.main(str(tmp_path), str(tmp_path)) == 1
