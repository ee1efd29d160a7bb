"""Evidence per operator.

What a change of one operator's records reruns, shown by dry runs over stand-in files.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sample
from cutesnake.analysis.evidence.gather import load_evidence
from cutesnake.model import catalog
from cutesnake.model.catalog import load_operator
from cutesnake.model.paths import ROOT
from loose import plain, typed
from project import OWN_OUTPUT, append, copy_project


def dry_run(project: Path, *arguments: str, changed: str = "") -> str:
    machine = str(project / "tests/machines/none.json")
    env = {**os.environ, "CUTESNAKE_MACHINE": machine, "CHANGED": changed}
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", OWN_OUTPUT, *arguments, "catalogue"]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def outputs(project: Path) -> list[str]:
    """List the outputs of the default experiment in the order in which jobs make them."""
    announced = re.findall(r"^    output: (.*)$", dry_run(project, "--forceall"), re.MULTILINE)
    return [path for line in announced for path in line.split(", ")]


def rerun(project: Path, changed: str = "") -> set[str]:
    """What a dry run would make again after a file was changed."""
    announced = re.findall(r"^    output: (.*)$", dry_run(project, changed=changed), re.MULTILINE)
    return {path for line in announced for path in line.split(", ")}


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> tuple[Path, list[str]]:
    """Copy the project with every output of the default experiment as an empty file.

    An empty file is no record: an environment variable names what is stale.
    """
    project = copy_project(tmp_path_factory.mktemp("done"))
    message = '("stale", "changed") if os.environ["CHANGED"] in (product.path, *product.reads) else None'
    append(
        project / "workflow/scripts/cutesnake/planning/outputs.py",
        f"\n\ndef _problem(product):\n    return {message}\n",
    )
    made = outputs(project)
    for name in made:
        path = project / name
        (path.parent if Path(name).suffix else path).mkdir(parents=True, exist_ok=True)
        path.touch() if Path(name).suffix else (path / ".snakemake_timestamp").touch()
    assert rerun(project) == set()
    return project, made


def operators(made: list[str]) -> list[str]:
    """Return the operators with a page of their own; the front page shows one more."""
    names = [Path(name).stem for name in made if name.startswith("results/plan/")]
    return [name for name in names if f"results/report/{name}.html" in made]


@pytest.mark.slow
def test_one_operators_record_reruns_its_own_comparison_pictures_and_page(done) -> None:
    project, made = done
    first, *_, last = operators(made)
    for operator in (first, last):
        page = {f"results/report/{operator}.html", f"results/report/anatomy/{operator}"}
        again = rerun(project, f"results/anatomy/{operator}")
        assert again == {f"results/anatomy/{operator}"} | page
        again = rerun(project, f"results/compare/{operator}.json")
        own = {f"results/compare/{operator}.json", f"results/compare/{operator}.csv", f"results/plot/{operator}"}
        assert again == own | page | {"results/overview", "results/catalogue.html"}


@pytest.mark.slow
def test_one_operators_recorded_set_reruns_nothing_of_the_others(done) -> None:
    project, made = done
    path = min(project.glob("recorded/*/timing-*.jsonl"))
    operator = path.stem.split("-")[1]
    again = rerun(project, str(path.relative_to(project)))
    assert {f"results/compare/{operator}.json", f"results/plot/{operator}"} <= again
    others = [name for name in operators(made) if name != operator]
    assert others and not [name for name in again if set(re.split("[/.]", name)) & set(others)]


def test_evidence_has_only_what_the_operator_s_files_hold(tmp_path, monkeypatch) -> None:
    result = typed(sample.evidence(gpu=True))
    paths = sample.write(tmp_path, plain(result))
    monkeypatch.chdir(tmp_path)
    loaded = load_evidence(*paths)
    assert loaded.operator == "blend"
    assert (loaded.builds, loaded.inspected, loaded.measured) == (result.builds, result.inspected, result.measured)


def test_no_generic_stage_template_or_schema_names_an_operator_or_its_axis() -> None:
    # Operators whose name is no other word: `reduce` is also one of CSS and of memory instructions.
    message = {operator: load_operator(operator).AXIS for operator in catalog.operators() if operator != "reduce"}
    result = re.compile(rf"\b({'|'.join([*message, *(axis for axis in message.values() if '_' in axis), 'lse'])})\b")
    generic = [
        ROOT / "Snakefile",
        *(path for path in (ROOT / "workflow").rglob("*") if path.suffix not in ("", ".pyc", ".jsonl")),
    ]
    assert len(generic) > 100
    generic.remove(ROOT / "workflow/scripts/cutesnake/report/document_tables.py")  # tables of this project's documents
    # `cute.gemm` is a function of the DSL.
    named = {path.name: result.findall(path.read_text().replace("cute.gemm", "")) for path in generic if path.is_file()}
    assert {name: seen for name, seen in named.items() if seen} == {}
