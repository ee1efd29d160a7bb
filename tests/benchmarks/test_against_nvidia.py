"""The record of predictions for `cute_sm100` and NVIDIA's kernel is whole."""

from benchmarks.mla_cute_sm100 import against_nvidia
from cutesnake.model.paths import ROOT

FOLDER = ROOT / "benchmarks/mla_cute_sm100"


def test_the_table_has_a_row_for_every_size_of_the_sweep() -> None:
    table = against_nvidia.table(against_nvidia.read(FOLDER / "against_nvidia.jsonl"))
    rows = [line for line in table.splitlines() if line.startswith("|")]
    sizes = {(w.batch, w.kv_length, w.lengths) for w in against_nvidia.workloads()}
    assert len(rows) == 2 + len(sizes)


def test_every_row_of_the_record_is_of_one_model_and_one_workload_of_the_sweep() -> None:
    entries = against_nvidia.read(FOLDER / "against_nvidia.jsonl")
    assert {entry["workload"] for entry in entries} == {workload.id for workload in against_nvidia.workloads()}
    assert len({entry["model"] for entry in entries}) == 1
