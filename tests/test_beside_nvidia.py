"""What `cute_sm100` is predicted to take beside NVIDIA's kernel: the document has what the record has."""

import sys

from cutesnake.model.paths import ROOT

FOLDER = ROOT / "benchmarks/mla_cute_sm100"
sys.path.insert(0, str(FOLDER))

import beside_nvidia  # noqa: E402
import floor  # noqa: E402
import planted_bugs as bugs  # noqa: E402

import ptxsim  # noqa: E402
from kernels.mla_decode.operator import Workload, cost  # noqa: E402


def test_the_kernels_document_has_the_table_of_the_record() -> None:
    told = beside_nvidia.table(beside_nvidia.read(FOLDER / "beside_nvidia.jsonl"))
    rows = [line for line in told.splitlines() if line.startswith("|")]
    text = (ROOT / "kernels/mla_decode/README.md").read_text()
    sizes = {(w.batch, w.kv_length, w.lengths) for w in beside_nvidia.workloads()}
    assert len(rows) == 2 + len(sizes) and "\n".join(rows) in text


def test_every_row_is_of_one_model_and_both_versions_were_held_against_the_same_times() -> None:
    now, before = (
        {entry["workload"]: entry for entry in beside_nvidia.read(FOLDER / name)}
        for name in ("beside_nvidia.jsonl", "beside_nvidia_v13.jsonl")
    )
    assert now.keys() == before.keys() == {workload.id for workload in beside_nvidia.workloads()}
    assert all(len({entry["model"] for entry in entries.values()}) == 1 for entries in (now, before))
    assert all(before[name]["nvidias"] == now[name]["nvidias"] for name in before)


def test_the_kernels_document_says_what_any_kernel_could_come_to_where_the_aim_is_missed() -> None:
    rows, floors = (beside_nvidia.read(FOLDER / name) for name in ("beside_nvidia.jsonl", "floor.jsonl"))
    assert beside_nvidia.floor_table(rows, floors) in (ROOT / "kernels/mla_decode/README.md").read_text()
    least = {found["workload"]: found for found in floors}
    for row in rows:
        if row["batch"] <= beside_nvidia.SMALL:
            for kind in beside_nvidia.KINDS:
                assert beside_nvidia.floor_us(least[row["workload"]], kind) < row["ours"][kind] < row["nvidias"][kind]


def test_what_only_moves_bytes_moves_those_that_are_needed_and_no_more_than_a_piece_of_each_request() -> None:
    workload = Workload(3, 200, "fp16")
    result = ptxsim.run(floor.launch(workload, 4), "random", track=True)
    need, counts = cost(workload), result.counts[0]
    places = 4 * len(floor.places(workload))
    assert result.ok and counts.global_read_unique_bytes is not None
    assert 0 <= counts.global_read_unique_bytes - places - need.bytes_read < workload.batch * floor.PIECE
    assert counts.global_read_bytes == counts.global_read_unique_bytes
    assert counts.global_write_bytes == need.bytes_written - 4 * workload.batch * workload.heads


def test_every_planted_bug_was_caught_and_no_intact_copy() -> None:
    found = {entry["bug"]: entry["caught"] for entry in beside_nvidia.read(FOLDER / "planted_bugs.jsonl")}
    assert found.keys() == {*bugs.INTACT, *bugs.mutants.EVERY}
    assert {bug for bug, how in found.items() if how is None} == set(bugs.INTACT)
    assert len({tuple(entry["of"].values()) for entry in beside_nvidia.read(FOLDER / "planted_bugs.jsonl")}) == 1
