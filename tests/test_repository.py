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
    released = yaml.safe_load((ROOT / "CITATION.cff").read_text())["date-released"]
    assert f"\n## [{PROJECT['version']}] - {released}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_changelog_has_short_lines() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert len(lines) <= 150 and not [line for line in lines if len(line) > 100]


def test_the_address_of_the_repository_is_in_one_place() -> None:
    address = PROJECT["urls"]["Repository"].encode()
    assert [name for name in tracked() if address in (ROOT / name).read_bytes()] == ["pyproject.toml"]


HISTORY = ("CHANGELOG.md", "docs/archive.md")  # these name files that are gone
TOP = "benchmarks|config|docs|envs|kernels|profiles|ptxsim|recorded|tests|workflow"


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("a copy without history does not tell the repository's files from others")
    return [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]


def test_links_and_paths_in_documents_lead_to_files_that_exist() -> None:
    missing = []
    for name in (name for name in tracked() if name.endswith(".md")):
        text, folder = (ROOT / name).read_text(), (ROOT / name).parent
        missing += [(name, link) for link in re.findall(r"\]\(([^)#:\s]+)[#)]", text) if not (folder / link).exists()]
        if name not in HISTORY:
            named = re.findall(rf"`((?:{TOP})/[\w./*-]+)`", text)
            missing += [(name, path) for path in named if not any(ROOT.glob(path.rstrip("/")))]
    assert not missing


def test_benchmarks_that_any_file_names_exist() -> None:
    """Also in comments, records and devices' tables."""
    missing = []
    for name in (name for name in tracked() if name not in HISTORY):
        text = (ROOT / name).read_bytes().decode(errors="ignore")
        named = {path.rstrip("./") for path in re.findall(r"(?<![\w/.-])benchmarks/[\w./*-]+", text)}
        missing += [(name, path) for path in named if not any(ROOT.glob(path))]
    assert not missing


def test_no_file_of_the_repository_is_larger_than_a_mebibyte() -> None:
    # A history of records grows by whole files. A larger one is to be split, as recorded sets are by kernel.
    files = [ROOT / name for name in tracked()]
    assert files and not [path for path in files if path.stat().st_size > 1 << 20]


def test_tests_that_reproduce_findings_in_third_party_kernels_exist() -> None:
    text = (ROOT / "docs" / "ptxsim" / "validation.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py) -k (\w+)`", text)
    assert named and not [test for file, test in named if f"\ndef {test}(" not in (ROOT / file).read_text()]
