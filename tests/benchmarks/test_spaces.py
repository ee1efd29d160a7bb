"""The recorded ranking of variants for a B200."""

import json
from pathlib import Path

from benchmarks.prediction import spaces
from cutesnake.model.catalog import load_kernel, make_workload

RECORD = Path(spaces.__file__).with_suffix(".jsonl")


def test_the_recorded_search_tried_all_of_todays_variants_and_names_todays_default() -> None:
    rows = [json.loads(line) for line in RECORD.read_text().splitlines()]
    assert len(rows) == sum(len(kernels) for kernels, _ in spaces.SPACES.values())
    for row in rows:
        workload = make_workload(row["operator"], spaces.SPACES[row["operator"]][1])
        assert workload.id == row["workload"]
        variants = [one.id for one in load_kernel(row["operator"], row["kernel"]).variants(workload, "sm_100a")]
        assert set(row["cold_us"]) == set(variants) and row["default"] == variants[0], row
