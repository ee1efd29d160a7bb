"""What reruns after a change, and what does not.

By content, with or without Snakemake's own notes.
"""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from project import append, jobs, replace, snakemake

pytestmark = pytest.mark.slow

KERNEL = "kernels/elementwise_add/cute/kernel.py"
CONTRACT = "kernels/elementwise_add/cute/__init__.py"
COMPILE = "\n\nplain = compile\n\n\ndef compile(*given):\n    {}\n    return plain(*given)\n"
BUILD = "results/compile/elementwise_add/cute/sm_90a/fp32_t256_v4"
AFTER_COMPARISON = {"compare": 1, "report": 1}
AFTER_BUILD = {"compile": 1, "simulated": 1, **AFTER_COMPARISON}


def installed(folder: Path, name: str, version: str) -> dict[str, str]:
    """The environment in which a newer distribution is on the path."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.fault("Results", "a newer compiler, torch, numpy or matplotlib", "what it made is remade")
@pytest.mark.parametrize(
    ("name", "redone"),
    [
        ("nvidia-cutlass-dsl", AFTER_BUILD),
        ("cuda-tile", {"compile": 1, **AFTER_COMPARISON}),
        ("nvidia-cuda-nvdisasm", {**AFTER_BUILD, "compile": 2}),
        ("numpy", {"simulated": 1, **AFTER_COMPARISON}),
        ("matplotlib", AFTER_COMPARISON),
    ],
)
def test_a_newer_compiler_or_library_redoes_what_was_made_with_it(project, tmp_path, name, redone) -> None:
    assert jobs(project, **installed(tmp_path / "newer", name, "999.0")) == redone


def test_the_reason_is_said(project, tmp_path) -> None:
    done = snakemake(project, "--dry-run", **installed(tmp_path / "newer", "nvidia-cutlass-dsl", "999.0"))
    assert re.search(r"1 stale, made again with what follows: nvidia-cutlass-dsl \S+ → 999.0", done.stdout), done.stdout
    append(project / KERNEL, "\nCHANGED = 1\n")
    assert f"1 stale, made again with what follows: {KERNEL} changed" in snakemake(project, "--dry-run").stdout


@pytest.mark.fault("Results", "`.snakemake` deleted, then a kernel edited", "builds remade")
@pytest.mark.parametrize("notes", ["there", "gone", "junk"])
def test_a_changed_kernel_is_noticed_without_snakemakes_notes(project, notes) -> None:
    if notes != "there":
        shutil.rmtree(project / ".snakemake")
    if notes == "junk":
        for name in ("metadata", "cutesnake-looked-at.json"):
            (project / ".snakemake" / name).parent.mkdir(exist_ok=True)
            (project / ".snakemake" / name).write_text("junk")
    if notes != "junk":  # with which Snakemake itself ends
        assert jobs(project) == {}
        append(project / KERNEL, "\nCHANGED = 1\n")
        assert jobs(project) == AFTER_BUILD


@pytest.mark.fault("Results", "an input edited, with an older date", "remade")
@pytest.mark.parametrize("date", [0, 4_000_000_000], ids=["older", "of the future"])
def test_an_input_counts_by_content_whatever_its_date(project, date) -> None:
    (page,) = (project / "workflow/report").glob("page.html.j2")
    os.utime(page, (date, date))
    assert jobs(project) == {}
    append(page, "<!-- changed -->\n")
    os.utime(page, (date, date))
    assert jobs(project) == {"report": 1}


@pytest.mark.fault("Results", "the folder copied with new dates, or moved", "nothing")
def test_a_copy_with_new_dates_at_another_depth_is_current(built, tmp_path) -> None:
    copied = tmp_path / "a" / "b" / "copy"
    shutil.copytree(built, copied, copy_function=shutil.copy)
    assert jobs(copied) == {}


@pytest.mark.fault("Results", "`results` moved and linked back", "nothing")
def test_results_that_were_moved_and_linked_back_are_current_and_stay_so(project, tmp_path) -> None:
    shutil.move(project / "results", tmp_path / "elsewhere")
    (project / "results").symlink_to(tmp_path / "elsewhere")
    assert jobs(project) == {}
    append(project / KERNEL, "\nCHANGED = 1\n")
    done = snakemake(project)
    assert done.returncode == 0, done.stderr
    assert jobs(project) == {}


@pytest.mark.fault("Results", "a file that `compile` reads, edited", "builds remade")
def test_a_file_that_a_build_reads_counts(project) -> None:
    # A JSON with sizes of tiles, whose name no import has, and a module whose name is computed: only `bind` names it.
    append(
        project / CONTRACT,
        COMPILE.format("_tiles()") + "\n\ndef _tiles():\n    import importlib, json\n    from pathlib import Path\n\n"
        "    importlib.import_module('kernels.elementwise_add.' + 'til' + 'ing')\n"
        "    return json.loads((Path(__file__).parent / 'tiles.json').read_text())\n\n"
        "_bind = bind\n\n\ndef bind(*arguments):\n    from kernels.elementwise_add import tiling\n\n"
        "    return _bind(*arguments)\n",
    )
    tiles, tiling = project / "kernels/elementwise_add/cute/tiles.json", project / "kernels/elementwise_add/tiling.py"
    tiles.write_text("{}")
    tiling.write_text("WIDE = 1\n")
    done = snakemake(project)
    assert done.returncode == 0, done.stderr
    opened = json.loads((project / BUILD / "build.json").read_text())["provenance"]["made_from"]["opened"]
    assert opened.keys() >= {"kernels/elementwise_add/cute/tiles.json", "kernels/elementwise_add/tiling.py"}
    assert jobs(project) == {}
    append(tiling, "# a comment\n")
    assert jobs(project) == {}
    tiles.write_text("{ }")
    assert jobs(project) == AFTER_BUILD
    tiles.write_text("{}")
    replace(tiling, "1", "2")
    assert jobs(project) == AFTER_BUILD


def test_comments_docstrings_and_layout_redo_nothing(project) -> None:
    for path in (KERNEL, CONTRACT, "ptxsim/core/run.py", "workflow/scripts/cutesnake/report/plot/style.py"):
        text = (project / path).read_text()
        (project / path).write_text(f"# first\n\n{text}\n# last\n")
    assert jobs(project) == {}


def test_a_comment_that_moves_lines_leaves_the_source_that_was_built(project) -> None:
    before = (project / KERNEL).read_text()
    replace(project / KERNEL, "import", "# one more line\nimport")
    assert json.loads((project / BUILD / "sources.json").read_text())[KERNEL] == before


@pytest.mark.fault("Results", "one pin edited", "only what comes from it is remade")
def test_a_pin_redoes_what_comes_from_it(project) -> None:
    replace(project / "kernels/upstream.yaml", "licence: ", "licence: other ")
    assert jobs(project) == {}


@pytest.mark.fault("Results", "one recorded number edited", "its operator's comparison and page are remade")
def test_a_recorded_number_redoes_its_operators_comparison_and_page(project) -> None:
    (recorded,) = (project / "recorded/nvidia_h200").glob("timing-elementwise_add-cute.jsonl")
    text = recorded.read_text()
    recorded.write_text(re.sub(r'"cold_us":[\d.]+', '"cold_us":7.5', text, count=1))
    assert recorded.read_text() != text
    assert jobs(project) == AFTER_COMPARISON


@pytest.mark.fault("Results", "one device figure edited", "no build is remade")
def test_a_number_of_a_gpu_redoes_no_build(project) -> None:
    devices = project / "config/devices.yaml"
    text = devices.read_text()
    devices.write_text(re.sub(r"(memory_gb_per_s: )\d+", r"\g<1>4801", text, count=1))
    assert devices.read_text() != text
    assert jobs(project) == {"plan": 1, **AFTER_COMPARISON}


@pytest.mark.fault("Results", "code of static metrics edited", "builds and their checks stay in use")
def test_code_of_static_figures_redoes_no_check(project) -> None:
    append(project / "workflow/scripts/cutesnake/stages/inspect/build.py", "\nCHANGED = 1\n")
    assert jobs(project) == {"compile": 2, **AFTER_COMPARISON}  # a build of equal sources is kept by its job


def test_what_was_forced_takes_what_follows_along(project) -> None:
    assert jobs(project, "--forcerun", "compile") == {**AFTER_BUILD, "compile": 2}


@pytest.mark.fault("Results", "the time limit raised, after a build hit it", "that build is tried again")
def test_a_higher_time_limit_tries_a_build_again_that_hit_it(project) -> None:
    append(project / CONTRACT, COMPILE.format("__import__('time').sleep(20)"))
    done = snakemake(project, "--config", "compile={max_seconds: 3}")
    assert done.returncode == 0, done.stderr
    assert json.loads((project / BUILD / "build.json").read_text())["status"] == "failed"
    assert jobs(project, "--config", "compile={max_seconds: 3}") == {}
    assert jobs(project, "--config", "compile={max_seconds: 4}")["compile"] == 1


def test_a_second_look_reads_no_result_again(project) -> None:
    assert jobs(project) == {}
    memory = project / ".snakemake/cutesnake-looked-at.json"
    before = memory.stat().st_mtime_ns
    time.sleep(0.1)
    assert jobs(project) == {}
    assert memory.stat().st_mtime_ns == before
