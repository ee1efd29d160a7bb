"""What is private of Snakemake.

It is in one module, it exists, and a version that lacks it ends in one line.
"""

import importlib.metadata
import re
from types import SimpleNamespace

import pytest

from cutesnake.model.paths import ROOT
from cutesnake.runtime import snakemake_internals as internals

REPLACED = internals.FACTORY, internals.GROUP, internals.SCRIPT
PUBLIC = {"basedir", "configfiles", "current_basedir"}  # of `workflow`: documented, or in every Snakemake for years


def test_the_version_that_is_pinned_is_the_one_that_was_tried() -> None:
    pinned = re.findall(r"^snakemake==(.+)$", (ROOT / "envs/requirements.in").read_text(), re.MULTILINE)
    assert pinned == [internals.TRIED]


def test_the_oldest_version_is_stated_alike() -> None:
    assert f'min_version("{internals.OLDEST}")' in (ROOT / "Snakefile").read_text()
    assert f"Snakemake {internals.OLDEST} or newer" in (ROOT / "README.md").read_text().replace("\n", " ")


@pytest.mark.parametrize(
    ("version", "reported"), [(internals.TRIED, False), ("9.0.1", False), ("9.27.2", True), ("9.99.0", True)]
)
def test_a_newer_version_is_told_of(version, reported, monkeypatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert bool(internals.untried_version()) is reported
    internals.check_version()


def test_a_major_version_that_is_not_known_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "10.0.0")
    with pytest.raises(internals.OtherSnakemakeError, match=r"^Snakemake 10\.0\.0 is too new: supported is .*$"):
        internals.check_version()


@pytest.mark.parametrize("where", REPLACED)
def test_every_replaced_method_is_there(where) -> None:
    seen = []
    internals.replace(where, lambda method: seen.append(method) or method)
    assert seen and callable(seen[0])


@pytest.mark.parametrize("where", ["snakemake.gone:GroupJob.end", "snakemake.jobs:Gone.end", "snakemake.jobs:Job.gone"])
def test_a_method_that_is_gone_is_one_line(where) -> None:
    with pytest.raises(internals.OtherSnakemakeError, match=r"^Snakemake [\d.]+ has no \w+\.\w+ in .*==[\d.]+$"):
        internals.replace(where, lambda method: method)


def test_an_attribute_that_is_gone_is_one_line() -> None:
    with pytest.raises(internals.OtherSnakemakeError, match=r"^Snakemake [\d.]+ has no SimpleNamespace\.dag: .*$"):
        internals.files_of_jobs(SimpleNamespace())


@pytest.mark.parametrize("value", [2, SimpleNamespace(value=2)], ids=["9.0", "9.27"])
def test_a_resource_is_a_number_in_every_version(value) -> None:
    workflow = SimpleNamespace(global_resources={"gpu": value})
    assert (internals.resource(workflow, "gpu"), internals.resource(workflow, "other")) == (2, None)


def test_rules_use_nothing_private_of_the_workflow() -> None:
    files = [ROOT / "Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]
    used = {name for path in files for name in re.findall(r"\bworkflow\.(\w+)", path.read_text())}
    assert used - {"rst"} == PUBLIC, "put the others into runtime/snakemake_internals.py"


def test_no_other_module_imports_snakemake() -> None:
    scripts = ROOT / "workflow/scripts"
    allowed = [scripts / "cutesnake/runtime/snakemake_internals.py", *scripts.glob("snakemake_logger_plugin_*/*.py")]
    for path in scripts.rglob("*.py"):
        if path not in allowed:
            assert not re.search(r"^\s*(from|import) snakemake", path.read_text(), re.MULTILINE), path
