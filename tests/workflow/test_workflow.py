"""What runs and what goes stale, shown by dry runs on a copy."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import dry_runs
import sample
from project import TINY, announced, append, copy_project, jobs, replace, snakemake

SWEEP = "kernels/elementwise_add/sweep.yaml"


def test_without_a_gpu_nothing_is_measured_and_cute_is_checked_by_simulation(fresh) -> None:
    planned = jobs(fresh)
    assert planned == {**{"arch": 1, "plan": 1, "compile": 2, "simulated": 1, "compare": 1, "report": 1}}


def test_simulation_occupies_no_card(fresh) -> None:
    resources = r"rule {}:.*?resources: ([^\n]*)"
    (local,) = re.findall(resources.format("simulated"), announced(fresh), re.DOTALL)
    assert "gpu=1" not in local
    checks = re.findall(resources.format("correctness"), announced(fresh, machine="h200"), re.DOTALL)
    assert checks and all("gpu=1" in check for check in checks)


def test_simulation_can_be_switched_off(fresh) -> None:
    replace(fresh / TINY, "extent: short", "extent: none")
    assert not {"correctness", "simulated"} & set(jobs(fresh))


def test_with_a_gpu_every_case_is_planned(fresh) -> None:
    planned = jobs(fresh, machine="h200")
    assert {stage: planned.get(stage) for stage in ("correctness", "timing", "nsys", "ncu")} == {
        **{"correctness": 12, "timing": 12, "nsys": 4, "ncu": 4},
    }


def test_a_timeline_is_made_after_the_times_it_is_held_against(fresh) -> None:
    arguments = ("--until", "nsys")
    assert jobs(fresh, *arguments, machine="h200")["timing"] == 4
    replace(fresh / TINY, "correctness, timing, nsys, ncu]", "correctness, nsys]")
    assert "timing" not in jobs(fresh, *arguments, machine="h200")


def test_the_target_of_the_card_at_hand_is_built_and_timed(fresh) -> None:
    replace(fresh / TINY, "targets: [sm_90a]", "targets: [sm_90a, here]")
    done = announced(fresh, machine="rtx5090")
    assert (
        "results/timing/elementwise_add/cute/sm_120a/" in done
        and "results/timing/elementwise_add/cute/sm_90a/" not in done
    )


def test_only_here_without_a_card_is_one_clear_line(fresh) -> None:
    replace(fresh / TINY, "targets: [sm_90a]", "targets: [here]")
    done = snakemake(fresh, "--dry-run")
    text = done.stdout + done.stderr
    assert done.returncode != 0 and "`here` stands for no target without a GPU" in text and "Traceback" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [(), ("--config", "operators=[elementwise_ad]"), ("results/compare/elementwise_ad.json",)]
)
def test_a_dry_run_of_these_tests_says_what_snakemake_says(fresh, more) -> None:
    # This project's are forked from a process that has imported Snakemake. Lists whose order is by chance are sorted.
    message = ["--cores", "1", "--dry-run", *more, "--configfile", TINY]
    env = {**os.environ, "CUTESNAKE_MACHINE": str(fresh / "tests/machines/none.json")}
    started = subprocess.run(
        [sys.executable, "-m", "snakemake", *message], cwd=fresh, env=env, capture_output=True, text=True
    )
    forked = dry_runs.run(message, fresh, env)

    def reported(done: subprocess.CompletedProcess) -> list[list[str]]:
        text = re.sub(r"Workflow ID: .*|Command: .*|Date: .*|\[... ... .*\]|[^ ]*\.snakemake\.log", "", done.stdout)
        return sorted(sorted(re.split(r"[ ,;]+", line)) for line in (text + done.stderr).splitlines())

    assert forked.returncode == started.returncode
    assert [line for line in reported(forked) if line not in reported(started)] == []
    assert len(reported(forked)) == len(reported(started))


@pytest.mark.slow
def test_jobs_are_looked_for_only_when_one_has_ended(tmp_path) -> None:
    project = copy_project(tmp_path / "project")
    rule = 'rule wait:\n    output: "{name}.waited"\n    shell: "sleep 1.4; touch {output}"\n'
    append(project / "Snakefile", rule)
    done = snakemake(project, "--verbose", "a.waited", "b.waited")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout + done.stderr).count("Resources before job selection") == 2


def test_another_gpu_costs_no_job(fresh) -> None:
    planned = jobs(fresh, machine="rtx5090")
    assert "timing" not in planned and planned["simulated"] == 1


def test_a_wrong_key_is_one_clear_line(fresh) -> None:
    replace(fresh / TINY, "max_seconds", "max_second")
    done = snakemake(fresh, "--dry-run")
    assert done.returncode != 0
    text = done.stdout + done.stderr
    assert "unknown key 'max_second'; did you mean 'max_seconds'?" in text
    assert "Traceback" not in text


@pytest.mark.slow
def test_the_report_is_there_and_says_why_nothing_was_measured(built) -> None:
    page = (built / "results/mla_report.html").read_text()
    assert "no GPU here: no NVIDIA driver is installed" in page
    for kernel in ("cute", "cutile"):
        assert (
            json.loads(next((built / f"results/compile/elementwise_add/{kernel}").rglob("build.json")).read_text())[
                "status"
            ]
            == "ok"
        )


@pytest.mark.slow
def test_the_first_operators_page_can_be_asked_for_as_the_others_are(project) -> None:
    done = snakemake(project, "results/report/elementwise_add.html")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '<a href="../mla_report.html">' in (project / "results/report/elementwise_add.html").read_text()
    assert jobs(project) == {}


@pytest.mark.slow
def test_a_second_run_does_nothing(project) -> None:
    assert jobs(project) == {}


@pytest.mark.slow
def test_a_comment_in_the_configuration_changes_nothing(project) -> None:
    append(project / TINY, "# a comment\n")
    assert jobs(project) == {}


@pytest.mark.slow
def test_touched_files_with_the_same_content_change_nothing(project) -> None:
    for path in (*project.glob("kernels/**/*.py"), *project.glob("workflow/**/*.py"), project / "Snakefile"):
        path.touch()
    assert jobs(project) == {}


@pytest.mark.slow
def test_a_changed_workload_rebuilds_nothing(project) -> None:
    replace(project / SWEEP, "[1000, 4096]", "[1001, 4096]")
    assert jobs(project) == {"plan": 1, "compare": 1, "report": 1}


@pytest.mark.slow
def test_a_changed_workload_reruns_only_its_cases(project) -> None:
    # Measurements of the old sweep are stood in for by records of other cases, which count as made from the same.
    code = "\n\ndef difference(*_, **__):\n    return None\n"
    append(project / "workflow/scripts/cutesnake/planning/outputs.py", code)
    records = {entry["stage"]: json.dumps(entry) for entry in sample.evidence(gpu=True).measured.values()}
    case = "results/{}/elementwise_add/{}/sm_90a/{}/m{}_n{}_fp32.json"
    sizes = ((1000, 4096), (4096, 4096), (32768, 8192), (128, 7168), (1, 7168), (8192, 5120))
    for stage in ("correctness", "timing", "nsys", "ncu"):
        for kernel in ("cute", "cutile"):
            (variant,) = (
                path.name for path in (project / f"results/compile/elementwise_add/{kernel}/sm_90a").iterdir()
            )
            for size in sizes:
                path = project / case.format(stage, kernel, variant, *size)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(records[stage])
    before = jobs(project, machine="h200")
    assert not {"correctness", "timing", "nsys", "ncu"} & set(before)
    replace(project / SWEEP, "[1000, 4096]", "[1001, 4096]")
    after = jobs(project, machine="h200")
    assert {stage: after.get(stage) for stage in ("compile", "correctness", "timing", "nsys", "ncu")} == {
        **{"compile": None, "correctness": 2, "timing": 2, "nsys": None, "ncu": None},
    }


@pytest.mark.slow
def test_a_kernels_source_rebuilds_that_kernel_only(project) -> None:
    append(project / "kernels/elementwise_add/cute/kernel.py", "\nCHANGED = 1\n")
    assert jobs(project) == {"compile": 1, "simulated": 1, "compare": 1, "report": 1}


@pytest.mark.slow
def test_the_loading_side_rebuilds_nothing(project) -> None:
    append(project / "workflow/scripts/cutesnake/stages/load/cute.py", "\nCHANGED = 1\n")
    assert jobs(project) == {"simulated": 1, "compare": 1, "report": 1}  # what loads builds simulates


@pytest.mark.slow
def test_the_simulators_code_checks_again_what_is_simulated(project) -> None:
    append(project / "ptxsim/core/run.py", "\nCHANGED = 1\n")
    assert jobs(project) == {"simulated": 1, "compare": 1, "report": 1}
    assert jobs(project, machine="h200")["correctness"] == 12  # those that were never run: on the GPU


@pytest.mark.slow
def test_the_report_says_what_was_checked_by_simulation(built) -> None:
    entry = json.loads(next((built / "results/correctness").rglob("*.json")).read_text())
    assert (entry["status"], entry["backend"]) == ("ok", "ptxsim")
    page = (built / "results/mla_report.html").read_text()
    assert "checked in simulation (ptxsim, no GPU; 2 schedules: random, late; seeds 0)" in page
    assert "leaves it out of the simulated checks" in page  # why cuTile is not


@pytest.mark.slow
def test_plot_code_redraws_and_reports_only(project) -> None:
    append(project / "workflow/scripts/cutesnake/report/plot/style.py", "\nCHANGED = 1\n")
    assert jobs(project) == {"compare": 1, "report": 1}


@pytest.mark.slow
def test_the_code_of_static_figures_compiles_and_simulates_nothing_again(project) -> None:
    # Jobs of what follows from a build run, and find what they would make there, made from the same.
    before = {
        path.relative_to(project): path.stat().st_mtime_ns
        for stage, kind in (("compile", "*.cubin"), ("correctness", "*.json"))
        for path in (project / "results" / stage).rglob(kind)
    }
    figures = sorted((project / "results/inspect").rglob("*.json"))
    written = {path: path.stat().st_mtime_ns for path in figures if path.name != "roofline.json"}
    append(project / "workflow/scripts/cutesnake/stages/inspect/sass.py", "\nCHANGED = 1\n")
    done = snakemake(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert before and {path: (project / path).stat().st_mtime_ns for path in before} == before
    assert written and all(path.stat().st_mtime_ns > date for path, date in written.items())


@pytest.mark.slow
def test_moving_to_a_gpu_turns_skips_into_runs_and_rebuilds_nothing(project) -> None:
    planned = jobs(project, machine="h200")
    assert "compile" not in planned
    assert planned["timing"] == 12 and planned["arch"] == 1


@pytest.mark.slow
def test_a_copied_folder_with_new_dates_rebuilds_nothing(built, tmp_path) -> None:
    shutil.copytree(built, tmp_path / "copy", copy_function=shutil.copy)  # cp -r: every file is dated now
    assert "compile" not in jobs(tmp_path / "copy", machine="h200")


@pytest.mark.slow
def test_snakemakes_own_report_holds_pages_pictures_and_tables(project) -> None:
    done = snakemake(project, "--report", "r.html")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (project / "r.html").read_text()
    for name in ("mla_report.html", "resources.svg", "elementwise_add.csv"):
        assert name in text
    for category in ("Overview", "Plots", "Tables"):
        assert f'"{category}"' in text


def test_what_is_missing_behind_a_stale_result_is_made(fresh) -> None:
    # Snakemake looks at no job behind one that runs if all its inputs are `ancient`, not even for missing outputs.
    everything = jobs(fresh)
    record = fresh / "results/arch.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}\n")
    assert jobs(fresh) == everything
