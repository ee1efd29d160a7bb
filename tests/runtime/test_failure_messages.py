"""The line on what failed, which a run ends with."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cutesnake.model.case_id import CaseId
from cutesnake.runtime import failures

IDS = [CaseId("add", "cute", "sm_90a", variant) for variant in ("fp32", "fp32_wide")]
CASES = [replace(build, workload="m5") for build in IDS]
BUILDS = [("compile", build, build.path("compile")) for build in IDS]
FIGURES = [("inspect", build, build.path("inspect")) for build in IDS]
CHECKS = [("correctness", case, case.path("correctness")) for case in CASES]
SOURCES = {("add", "cute"): "ours"}
RECORDS = [*BUILDS, *FIGURES, *CHECKS]


@pytest.fixture
def records(tmp_path, monkeypatch):
    """Write the records, the ones named as failed."""
    monkeypatch.chdir(tmp_path)

    def write(*failed: tuple[str, CaseId, str]) -> list[tuple[str, CaseId, str]]:
        for record in RECORDS:
            Path(record[2]).parent.mkdir(parents=True, exist_ok=True)
            Path(record[2]).write_text(json.dumps({"status": "failed" if record in failed else "ok"}))
        return RECORDS

    return write


def test_nothing_is_said_where_nothing_failed(records) -> None:
    assert failures.lines(records(), {}, SOURCES, "page.html") == []


def test_records_that_are_not_there_count_for_nothing(records) -> None:
    timing = ("timing", CASES[0], CASES[0].path("timing"))
    line, *_ = failures.lines([*records(CHECKS[0]), timing], {}, SOURCES, "page.html")
    assert line == "Failed: 1 of 2 checks (add/cute). The reasons are in page.html and in each record."


def test_where_kernels_of_others_alone_failed_it_is_said(records) -> None:
    line, *_ = failures.lines(records(CHECKS[0]), {}, {("add", "cute"): "tilegym"}, "page.html")
    assert line.startswith("Failed: 1 of 2 checks, all of kernels by others (add/cute).")


def test_what_follows_from_a_failed_build_is_the_builds_failure(records) -> None:
    line, *_ = failures.lines(records(BUILDS[0], FIGURES[0], CHECKS[0]), {}, SOURCES, "page.html")
    assert line.startswith("Failed: 1 of 2 builds (add/cute).")
    line, *_ = failures.lines(records(BUILDS[0], FIGURES[0], CHECKS[1]), {}, SOURCES, "page.html")
    assert line.startswith("Failed: 1 of 2 builds, 1 of 2 checks (add/cute).")


def test_kernels_that_break_their_contract_are_counted_and_the_list_of_kernels_ends(records) -> None:
    broken = {("add", f"mine_{number}"): "no bind" for number in range(7)}
    line, *cells = failures.lines(records(CHECKS[0]), broken, SOURCES, "page.html")
    assert cells == [f"  add/mine_{number}: no bind" for number in range(failures.CELLS)]
    assert line.startswith("Failed: 7 kernels that cannot be loaded, 1 of 2 checks (add/mine_0, add/mine_1, ")
    assert "add/mine_3 and 4 more kernels)" in line


def test_an_earlier_runs_failures_are_not_told(records) -> None:
    made, batches = records(CHECKS[0]), {CHECKS[1][2]: "results/batch/simulated/add/cute/sm_90a.json"}
    assert failures.of_run(made, batches, {BUILDS[0][2]}) == [BUILDS[0]]
    assert failures.lines(failures.of_run(made, batches, {BUILDS[0][2]}), {}, SOURCES, "page.html") == []
    assert failures.of_run(made, batches, {CHECKS[0][2], *batches.values()}) == CHECKS


def decision(winner: str, mean: float, cute: int, cutile: int, equal: int = 0) -> dict:
    names = {"cute_wins": cute, "cutile_wins": cutile, "equal": equal}
    wins = {name: [f"w{number}" for number in range(count)] for name, count in names.items()}
    return {"figure": "warm", "winner": winner, "reason": "majority", "mean": mean, **wins}


def test_the_end_names_a_winner_only_where_the_page_does(tmp_path) -> None:
    path = tmp_path / "gemm.json"
    split = {"parameter": "m", "cute": "≥ 1024", "cutile": "= 128"}
    measured = {"predicted": False, "gpu": "H200", "warm": decision("depends", 0.92, 3, 1) | {"split": split}}
    predicted = {"predicted": True, "gpu": "B200", "warm": decision("cute", 5, 1, 0)}
    path.write_text(json.dumps({"status": "ok", "operator": "gemm", "verdicts": [measured, predicted]}))
    verdict = failures.verdict(str(path))
    assert verdict is not None and "depends on m," in verdict and "3 of 4" in verdict and "times as fast" not in verdict
    assert "B200" not in verdict
    path.write_text(
        json.dumps(
            {"status": "ok", "operator": "gemm", "verdicts": [measured | {"warm": decision("cutile", 0.5, 0, 2)}]}
        )
    )
    assert "cuTile is 2.00 times as fast" in (failures.verdict(str(path)) or "")
