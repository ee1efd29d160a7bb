"""What a stranger expects of a repository is there and agrees with itself."""

import re
import subprocess
import tomllib

import pytest
import yaml

from cutesnake.model.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_licence_is_the_one_that_is_stated_everywhere() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0" in text and "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == yaml.safe_load((ROOT / "CITATION.cff").read_text())["license"] == "Apache-2.0"


def test_the_version_is_the_same_in_citation_and_changelog() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]
    assert f"\n## {PROJECT['version']}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_documents_name_files_that_exist(document) -> None:
    text = (ROOT / document).read_text()
    named = [name for name in re.findall(r"`([\w./-]+)`", text) if "/" in name or name.endswith((".md", ".toml"))]
    assert named and not [name for name in named if not (ROOT / name).exists()]
    assert max(map(len, text.splitlines())) <= 100


def test_no_file_of_the_repository_is_larger_than_a_mebibyte() -> None:
    """A history of records grows by whole files; a larger one is to be split, as recorded sets are by kernel."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("a copy without history does not tell the repository's files from others")
    files = [path for path in (ROOT / name for name in listed.stdout.split("\0")) if path.is_file()]
    assert files and not [path for path in files if path.stat().st_size > 1 << 20]


def test_every_finding_in_others_kernels_has_a_test_that_reproduces_it() -> None:
    text = (ROOT / "docs" / "ptxsim.md").read_text()
    findings, commands = text.partition("## Findings in intact kernels")[2].partition("## ")[0].split("| finding |")
    named = re.findall(r"`(tests/[\w/]+\.py) -k (\w+)`", commands)
    assert (
        len(named) + commands.count("the same") == commands.count("\n| ") == findings.count("\n- **") + 2
    )  # cuTile's two are not in that list
    assert not [test for file, test in named if f"\ndef {test}(" not in (ROOT / file).read_text()]


def test_the_catalogue_entry_has_what_the_catalogue_asks_for() -> None:
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert {"mandatory-flags", "software-stack-deployment", "report"} == set(usage)
    annotated = any("report(" in path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    assert usage["report"] == annotated  # whether `snakemake --report` holds any figure
