"""Static site: contents, links, and no build."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fastparquet
import pytest

import cutesnake
import dry_runs
import sample
from cutesnake.model import record
from cutesnake.report import example_changes, site
from cutesnake.report.example_changes import NAME
from loose import compare, every_row, reasons, to_csv
from project import OWN_OUTPUT, ROOT

PAGE = '<html><body><nav><a href="report/op.html">op</a></nav><a href="compile/op/k/build.json">build.json</a></body>'
OPERATOR = '<html><body><nav><a href="../mla_report.html#top">front</a></nav><a href="https://x.org/">x</a>'
OPERATOR += '<a href="../../recorded/nvidia_h200/set.json">set 1</a></body>'  # evidence


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder with two pages and two tables in a small project."""
    folder = tmp_path / "results"
    for name, text in {
        "results/mla_report.html": PAGE,
        "results/catalogue.html": PAGE,
        "results/report/op.html": OPERATOR,
        "results/compare/op.csv": "operator,workload,duration_us\nop,w,1.25\n",
        "results/compare/other.csv": "operator,workload,duration_us,axis\nother,w,0.1,3\n",
        "results/compare/op.json": "{}",
        "docs/index.md": "# Documentation\n",
        "recorded/nvidia_h200/set.json": "{}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return folder


@pytest.fixture
def built(results: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(site.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(site.shutil, "which", lambda name: None)
    site.write_site(str(results / "mla_report.html"), str(results.parent), str(results / "site"))
    return results / "site"


def test_the_site_has_pages_tables_documentation_and_data(built: Path) -> None:
    names = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()}
    assert names == {
        *(
            "index.html",
            "mla_report.html",
            "catalogue.html",
            "report/op.html",
            "results.csv",
            "results.parquet",
            ".nojekyll",
        ),
        *("compare/op.csv", "compare/other.csv", "docs/index.md", "recorded/nvidia_h200/set.json"),
    }
    assert (built / "results.csv").read_text().splitlines()[1:] == ["op,w,1.25,", "other,w,0.1,3.0"]
    frame = fastparquet.ParquetFile(str(built / "results.parquet")).to_pandas()
    assert list(frame["operator"]) == ["op", "other"] and list(frame["duration_us"]) == [1.25, 0.1]


def missing_links(folder: Path) -> Iterator[tuple[str, str]]:
    """Page and target of each link of report pages to a missing file."""
    for page in sorted(folder.rglob("*.html")):
        if page.is_relative_to(folder / "docs"):
            continue
        for _, target, _, _ in site.LINK.findall(page.read_text(encoding="utf-8")):
            if ":" not in target and not (page.parent / unquote(target)).exists():
                yield page.relative_to(folder).as_posix(), target


def test_links_lead_to_files_of_the_site_and_to_documentation_and_data(built: Path) -> None:
    assert list(missing_links(built)) == []
    front, operator = ((built / name).read_text() for name in ("index.html", "report/op.html"))
    assert "build.json" in front and 'href="compile' not in front  # the text stays, the link does not
    assert 'href="docs/index.md"' in front and 'href="../docs/index.md"' in operator
    assert 'href="../results.csv"' in operator and 'href="../mla_report.html#top"' in operator
    assert 'href="../recorded/nvidia_h200/set.json"' in operator
    (built / "report/op.html").unlink()
    assert ("index.html", "report/op.html") in list(missing_links(built))


@pytest.mark.parametrize("docs", ["docs/index.md", "docs/index.html"])
def test_knowledge_entries_are_linked_within_the_site(tmp_path: Path, docs: str) -> None:
    page = tmp_path / "report/anatomy/op/k.html"
    entry = "knowledge/a/b.md" if docs.endswith(".md") else "knowledge/a/b/index.html"
    up = "../../../../docs/knowledge"
    for path, text in (
        (page, f'<nav></nav><a href="{up}/a/b.md">b</a><a href="{up}/c.md">c</a>'),
        (tmp_path / "docs" / entry, ""),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    site._adapt(page, tmp_path, (docs, ""))
    assert f'<a href="../../../docs/{entry}">b</a><a>c</a>' in page.read_text()


def test_a_site_that_is_too_large_is_one_clear_line(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MOST_BYTES", 10)
    monkeypatch.setattr(site.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(site.shutil, "which", lambda name: None)
    with pytest.raises(site.SiteError, match="allowed: 0 MB"):
        site.write_site(str(results / "mla_report.html"), str(results.parent), str(results / "site"))


def test_results_are_one_table(results: Path, tmp_path: Path) -> None:
    frame = cutesnake.read_results(results)
    assert list(frame["operator"]) == ["op", "other"] and list(frame["duration_us"]) == [1.25, 0.1]
    with pytest.raises(FileNotFoundError, match="run snakemake first"):
        cutesnake.read_results(tmp_path / "nothing")


def test_the_notebook_finds_the_speedups_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = every_row(sample.evidence(recorded=True))
    record.write_text(tmp_path / "results/compare/blend.csv", to_csv("blend", rows, reasons(rows)))
    notebook = json.loads((ROOT / "docs/how-to/results.ipynb").read_text())
    monkeypatch.setattr("cutesnake.model.paths.ROOT", tmp_path)
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    means = [one["warm"]["mean"] for one in compare(sample.evidence(recorded=True))["speedups"] if one["warm"]]
    assert means and sorted(names["summary"]["mean"]) == pytest.approx(sorted(means))


def test_the_example_of_two_versions_is_linked_where_there_is_one(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(site.shutil, "which", lambda name: None)
    for there in (False, True):
        if there:
            (results / "report" / NAME).write_text(OPERATOR)
        site.write_site(str(results / "mla_report.html"), str(results.parent), str(results / "site"))
        assert (f'href="report/{NAME}#changed"' in (results / "site/index.html").read_text()) is there
        assert list(missing_links(results / "site")) == []


def test_without_gits_history_there_is_no_example_but_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(example_changes, "BASELINE", "0" * 40 + ":recorded/nvidia_h200")
    monkeypatch.setattr(example_changes, "load_evidence", lambda *files: None)
    why_not = example_changes.write_example({"plan": "p", "roofline": "r", "recorded": []}, {}, {}, "f.html", tmp_path)
    assert why_not is not None and "baseline 000" in why_not and list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_no_build_is_made_for_the_site(fresh: Path) -> None:
    environment = {**os.environ, "CUTESNAKE_MACHINE": str(fresh / "tests/machines/none.json")}
    done = dry_runs.run(["--cores", "1", "--dry-run", OWN_OUTPUT, "site"], fresh, environment)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    jobs = set(re.findall(r"^(?:local)?rule (\w+):", output, re.MULTILINE))
    assert {"site", "page", "report", "compare"} <= jobs
    assert not jobs & {"compile", "simulate", "predict", "anatomy", "correctness", "timing", "fetch"}
