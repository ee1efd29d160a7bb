"""The micro-benchmarks of Hopper without a GPU.

Their kernels assemble and keep what they measure, and what the runner and the derivation make of recorded numbers.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.microbenchmarks import derive, kernel, reading, run

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "microbenchmarks"

SMALL = ("launches", "shared_memory", "synchronization", "tma")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]*)")


def instructions(cubin: Path) -> dict[str, list[str]]:
    """The names of the machine instructions of each kernel."""
    tool = Path(kernel.find_ptxas() or "").with_name("cuobjdump")
    text = subprocess.run([tool, "-sass", cubin], capture_output=True, text=True, check=True, timeout=120).stdout
    result: dict[str, list[str]] = {}
    for line in text.splitlines():
        if name := re.search(r"Function : (\S+)", line):
            current = result.setdefault(name[1], [])
        elif match := INSTRUCTION.search(line):
            current.append(match[1])
    return result


def check_group(name: str, folder: Path) -> None:
    group = run.group(name)
    cubin = kernel.assemble(kernel.module(group.kernels()), folder)
    assert cubin is not None, "the environment has ptxas"
    result = instructions(cubin)
    for entry, (wanted, count) in group.expected().items():
        prefixes = tuple(wanted.split("|"))
        assert sum(op.startswith(prefixes) for op in result[entry]) >= count, f"{name}: {entry} lost its {wanted}"


@pytest.mark.parametrize("name", SMALL)
def test_a_groups_kernels_assemble_and_keep_the_instructions_they_measure(name: str, tmp_path: Path) -> None:
    check_group(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(run.GROUPS) - set(SMALL)))
def test_a_large_groups_kernels_assemble_and_keep_the_instructions_they_measure(name: str, tmp_path: Path) -> None:
    check_group(name, tmp_path)


def test_a_kernel_that_ptxas_refuses_is_an_error_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"module\.ptx, line"):
        kernel.assemble(kernel.module([kernel.timed("bad", "no.such.instruction;")]), tmp_path)


def made_run(cycles: int, nanoseconds: int) -> reading.Run:
    stamps = np.zeros((2, 2, kernel.STAMPS), np.int64)
    stamps[:, :, 0], stamps[:, :, 1] = 1_000, 1_000 + cycles
    stamps[:, :, 2], stamps[:, :, 3] = 5_000, 5_000 + nanoseconds
    return reading.Run(stamps)


def test_the_slope_leaves_out_what_is_outside_the_loop() -> None:
    pairs = [(made_run(700 + 10 * 32, 560), made_run(700 + 30 * 32, 880))] * 3
    result = reading.slope_reading(pairs, (10, 30), per_iteration=16, bytes_per_iteration=160.0)
    assert result.value == 2.0
    assert result.sm_clock_mhz == pytest.approx(1660 / 880 * 1000)
    assert result.also["gb_per_s"] == pytest.approx(160.0 * 20 / 320)
    assert reading.slope_reading(pairs, (10, 30), 64, rate=True).value == 2.0


def test_a_run_whose_kernel_wrote_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="did not run"):
        _ = reading.Run(np.zeros((1, 1, kernel.STAMPS), np.int64)).cycles


def test_a_benchmark_that_hangs_or_kills_its_process_costs_only_its_own_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [benchmark.name for benchmark in run.group("synchronization").benchmarks()]
    ends = {3: None, 5: -11}  # the fourth hangs, the sixth dies

    def child(name: str, first: int, rows: Path, cubins: Path) -> int | None:
        with rows.open("a") as stream:
            for i in range(first, len(names)):
                if i in ends:
                    return ends[i]
                stream.write(json.dumps({"group": name, "name": names[i], "error": None}) + "\n")
        return 0

    monkeypatch.setattr(run, "_child", child)
    rows = run.run_group("synchronization", tmp_path / "rows.jsonl", tmp_path)
    assert [row["name"] for row in rows] == names
    assert {i for i, row in enumerate(rows) if row["error"]} == {3, 5}
    assert "hung" in rows[3]["error"]


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_the_clocks_table_holds_what_the_recorded_results_give(gpu: str) -> None:
    """Also the proof that every derivation finds its rows in a recorded file."""
    result = derive.derive(derive.Results.read(FOLDER / f"{gpu}.json"))
    table = (ROOT / "ptxsim" / "devices" / f"{gpu}.yaml").read_text()
    assert derive.enter(table, result, f"{gpu}.json") == table, f"run derive.py --write on {gpu}.yaml"


def test_a_parameter_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        derive.enter("parameters:\n", {"no_such_cycles": (1.0, "nothing")}, "x.json")


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_a_recorded_file_has_every_benchmark_and_says_nothing_of_its_host(gpu: str) -> None:
    text = (FOLDER / f"{gpu}.json").read_text()
    rows = json.loads(text)["benchmarks"]
    groups = [name for name in run.GROUPS if (gpu, name) != ("h100", "product_loads")]  # not measured there
    planned = sum(len(list(run.group(name).benchmarks())) for name in groups)
    assert len(rows) == planned
    assert not [row["name"] for row in rows if row["error"]]
    assert not re.search(r"/home/|/work|/root|/tmp|hostname|uuid", text, re.IGNORECASE)
