"""Records, pages and builds hold no local path, host name or user name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sample
from cutesnake.model import record
from cutesnake.model.catalog import PATHS
from cutesnake.model.paths import ROOT
from cutesnake.report import html
from cutesnake.runtime import shareable
from project import copy_project, replace


@pytest.mark.fault("Users", "folders of this machine in records", "left out")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (f"in {ROOT}/kernels/a.py", "in ./kernels/a.py"),
        (f"{Path.home()}/x", "~/x"),
        (f"{sys.prefix}/lib/python3/site-packages/a.py", "<python>/lib/python3/site-packages/a.py"),
        (f"{Path.home()}x/y", f"{Path.home()}x/y"),
        ("of a sentence", "of a sentence"),
    ],
)
def test_folders_of_this_machine_are_left_out_of_texts(text, clean, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert shareable.neutral(text) == clean


def test_folders_of_the_users_own_kernels_are_left_out(monkeypatch, tmp_path) -> None:
    mine = tmp_path / "Zoë's kernels"
    monkeypatch.setenv(PATHS, str(mine))
    assert shareable.neutral(f"{mine}/add/cute.py:3") == "kernels/add/cute.py:3"
    entry = next(iter(sample.evidence(gpu=True).builds.values()))
    record.write("compile", tmp_path / "build.json", {**entry, "status": "failed", "reason": f"{mine}/add/cute.py:3"})
    assert record.plain(record.read("compile", tmp_path / "build.json"))["reason"] == "kernels/add/cute.py:3"
    assert "kernels/add" in (tmp_path / "build.json").read_text() and "Zo" not in (tmp_path / "build.json").read_text()


@pytest.fixture
def names(monkeypatch):
    monkeypatch.setattr(shareable.getpass, "getuser", lambda: "annabel")
    monkeypatch.setattr(shareable.socket, "gethostname", lambda: "gpu-box-7")
    shareable._names.cache_clear()
    yield
    shareable._names.cache_clear()


@pytest.mark.fault("Users", "a page that names a folder or user of this machine", "not written")
@pytest.mark.parametrize(
    "text",
    [
        f"<p>{ROOT}/kernels</p>",
        "<p>/home/somebody/project</p>",
        "file at /Users/ann/x",
        "/scratch/ann",
        "on gpu-box-7.",
    ],
)
def test_a_page_that_names_somebody_or_a_place_is_refused(names, text) -> None:
    with pytest.raises(shareable.ShareError) as caught:
        shareable.check(text, "results/page.html")
    assert str(caught.value).startswith("results/page.html ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["https://example.org/home/x", "results/home/x.json", "annabella", "gpu-box-70", "kernels/data/x.py"],
)
def test_what_only_looks_alike_is_not(names, text) -> None:
    shareable.check(text, "results/page.html")


def test_a_name_that_may_be_a_word_is_warned_of(names, capsys) -> None:
    shareable.check("by annabel", "results/page.html")
    (line,) = capsys.readouterr().err.splitlines()
    assert "results/page.html" in line and "annabel" in line


BUILDS = """
from pathlib import Path
from cutesnake.stages.compile.compile import compile_build
from cutesnake.model.catalog import load_kernel, load_operator
for kernel in ("cute", "cutile"):
    workload = load_operator("elementwise_add").Workload(100, 100, "fp32")
    variant = load_kernel("elementwise_add", kernel).variants(workload, "sm_90a")[0]
    compile_build("elementwise_add", kernel, "sm_90a", variant, Path("results/compile/a", kernel, "sm_90a/v"))
"""


@pytest.mark.fault(
    "Users", "a build on another machine or in another folder", "the same bytes, with neutral file names"
)
@pytest.mark.slow
def test_equal_sources_give_equal_bytes_wherever_the_project_lies(tmp_path) -> None:
    # Of both DSLs. Cubins, objects, libraries, PTX, MLIR and Tile IR, which all have line tables. The CuTe kernel calls
    # a deprecated function, whose wrapper stands in an installed package outside of the DSL.
    result = []
    for name in ("annabel", "b/longer/path"):
        project = copy_project(tmp_path / name)
        first_line = "thread, _, _ = cute.arch.thread_idx()"
        deprecated = (
            f"cute.arch.atomic_max_float32(ptr=mC.iterator.llvm_ptr, value=cutlass.Float32(0.0))\n        {first_line}"
        )
        replace(project / "kernels/elementwise_add/cute/kernel.py", first_line, deprecated)
        environment = {**os.environ, "PYTHONPATH": f"{project}:{project / 'workflow/scripts'}"}
        done = subprocess.run(
            [sys.executable, "-c", BUILDS], cwd=project, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        files = sorted((project / "results/compile/a").rglob("kernel.*"))
        result.append({str(path.relative_to(project)): path.read_bytes() for path in files})
    first, second = result
    assert len(first) == 11 and first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    for place in (tmp_path, ROOT, Path.home(), Path(sys.prefix)):
        assert [name for name, content in first.items() if str(place).encode() in content] == []


def test_a_page_loses_what_its_lines_begin_with_but_not_where_that_is_shown(tmp_path) -> None:
    page = "<p>\n   text\n\t<b>x</b></p>\n{}  <i>y</i>"
    kept = "<pre>\n  kept\n</pre>\n<script>\n  kept()\n</script>\n"
    html.write(page.format(kept), tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == f"<p>\ntext\n<b>x</b></p>\n{kept}<i>y</i>"
