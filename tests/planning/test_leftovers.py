"""What `clean` removes: results that nothing names.

It never removes what is planned or made on another machine.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cutesnake.model.paths import ROOT
from cutesnake.planning import leftovers
from cutesnake.planning.arch import Ability
from cutesnake.planning.config import check, lay_over_file
from cutesnake.planning.matrix import Plan, make_plan

ADD = "elementwise_add"
KEPT = (
    "arch.json",
    "mla_report.html",
    "catalogue.html",
    "notes of mine.txt",
    "compile/store/0123-4567.sass",
    "compile/runtime/libcute_dsl_runtime.so",
    "report/operations.html",
    "log/report.log",
    "log/fetch/nvidia-cutlass.log",
    f"inspect/{ADD}/roofline.json",
    f"compare/{ADD}.csv",
    f"log/compare/{ADD}.log",
    f"plot/{ADD}/roofline.svg",
    f"report/anatomy/{ADD}/cute.html",
)
GONE = (
    f"log/compile/{ADD}/ann/sm_90a/rows3.log",
    f"timing/{ADD}/ann/sm_90a/rows3/m3_n1000_fp32@h100.json",
    f"correctness/{ADD}/cute/sm_90a/no_such_variant/m3_n1000_fp32.json",
    f"batch/timing/{ADD}/cute/sm_90a/no_such_variant/b0.json",
    f"batch/simulated/{ADD}/cute/sm_75.json",
    f"compile/{ADD}/cute/sm_75/fp32/build.json",
    "compare/softmax_of_yore.json",
    "plot/softmax_of_yore/roofline.svg",
    "report/softmax_of_yore.html",
    "report/anatomy/softmax_of_yore/cute.html",
)


@pytest.fixture
def plan(machine) -> Plan:
    config = yaml.safe_load((ROOT / "tests/configs/tiny.yaml").read_text())
    lay_over_file(config, ROOT / "config/config.yaml")
    return make_plan(check(config), machine("none"))


def write(results: Path, *names: str) -> list[Path]:
    paths = [results / name for name in names]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0123456789")
    return paths


def planned(plan: Plan) -> list[str]:
    """A file of each stage that is planned."""
    case = next(iter(plan.cases.values()))
    build, workload = case.build.key, case.workload.id
    stages = [f"{stage}/{case.id.key}.json" for stage in ("correctness", "timing", "nsys", "ncu", "predict")]
    builds = [f"compile/{build}/build.json", f"compile/{build}/kernel.ptx", f"inspect/{build}.json"]
    tuned = f"autotune/{build.rpartition('/')[0]}/{workload}.json"
    others = [
        f"timing/{case.id.key}@h100.json",
        f"batch/timing/{build}/b0@h100.json",
        f"log/batch/timing/{build}/b0.log",
    ]
    return [*stages, *builds, tuned, *others, *(f"log/{name}".replace(".json", ".log") for name in stages)]


@pytest.mark.fault(
    "Results", "a sweep no longer names a kernel, target or workload", "`clean` lists its results and removes them"
)
def test_only_what_nothing_names_is_removed_and_it_is_told(tmp_path, plan) -> None:
    kept, gone = write(tmp_path, *KEPT, *planned(plan)), write(tmp_path, *GONE)
    rows = leftovers.find(tmp_path, plan)
    assert rows == sorted(gone)
    summary = leftovers.summary(rows, tmp_path)
    assert f"  {ADD}/ann/sm_90a: 2 files, 0.0 MB" in summary and "  softmax_of_yore: 4 files, 0.0 MB" in summary
    leftovers.remove(rows, tmp_path)
    assert all(path.exists() for path in kept) and not any(path.exists() for path in gone)
    assert not (tmp_path / f"compile/{ADD}/cute/sm_75").exists()
    assert leftovers.find(tmp_path, plan) == []


@pytest.mark.fault("Results", "`--delete-all-output` leaves PTX and objects", "`clean` lists and removes them")
def test_files_of_a_build_whose_record_is_gone_are_removed(tmp_path, plan) -> None:
    build = next(iter(plan.builds))
    left = write(tmp_path, f"compile/{build}/kernel.ptx", f"compile/{build}/kernel.o")
    assert leftovers.find(tmp_path, plan) == sorted(left)


def test_results_that_this_machine_cannot_make_are_kept(tmp_path, plan) -> None:
    plan.decisions[:] = [replace(one, build=Ability(False, "no compiler")) for one in plan.decisions]
    write(tmp_path, f"timing/{ADD}/cute/sm_90a/of_the_gpu_machine/m3_n1000_fp32.json")
    assert leftovers.find(tmp_path, plan) == []


def test_a_linked_folder_is_not_entered(tmp_path, plan) -> None:
    (kept,) = write(tmp_path / "elsewhere", "ann/sm_90a/rows3/m3.json")
    (tmp_path / "results/timing").mkdir(parents=True)
    (tmp_path / "results/timing/softmax_of_yore").symlink_to(tmp_path / "elsewhere")
    leftovers.remove(leftovers.find(tmp_path / "results", plan), tmp_path / "results")
    assert kept.exists()
