"""Records and pages state their sources, and a later change shows."""

import json
from pathlib import Path

import pytest

from cutesnake.model import provenance, record

RECIPE = {"code": {"workflow": "c0de"}, "params": {"settings": "5e77"}, "versions": {"numpy": "2.4.6"}}
PLAIN = {"stage": "arch", "status": "ok", "provenance": {"created": "today"}, "number": 1.5}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_record_says_what_it_was_made_from(folder) -> None:
    Path("results").mkdir()
    Path("results/build.json").write_text("{}")
    with provenance.making(RECIPE, ["results/build.json", "results/missing.json"]):
        entry = provenance.signed(PLAIN)
    made = provenance.check(entry)
    assert made["files"]["results/build.json"] == provenance.digest_of("results/build.json")
    assert made["files"]["results/missing.json"] is None
    assert {name: made[name] for name in RECIPE} == RECIPE


def test_an_edited_number_shows_and_another_layout_does_not(folder) -> None:
    with provenance.making(RECIPE):
        entry = provenance.signed(PLAIN)
    assert provenance.check(json.loads(json.dumps(entry, indent=7, sort_keys=True))) == {**RECIPE, "files": {}}
    with pytest.raises(ValueError, match="digest differs"):
        provenance.check({**entry, "number": 1.25})
    moved = {**entry, "provenance": {**entry["provenance"], "created": "yesterday"}}
    with pytest.raises(ValueError, match="digest differs"):
        provenance.check(moved)


def test_a_record_of_before_says_nothing_and_is_no_damage() -> None:
    assert provenance.check(PLAIN) is None
    assert provenance.check({**PLAIN, "provenance": {"created": "today", "made_from": "0123456789abcdef"}}) is None


def test_outside_of_a_job_nothing_is_added() -> None:
    assert not provenance.is_signed(PLAIN)
    with provenance.making(None):
        assert not provenance.is_signed(PLAIN)


def test_the_files_that_a_job_is_given_are_digested_before_it_starts(folder) -> None:
    path = Path("results/a.json")
    path.parent.mkdir()
    path.write_text("before")
    with provenance.making(RECIPE, [str(path)]):
        before = provenance.digest_of(path)
        path.write_text("meanwhile")
        entry = provenance.signed(PLAIN)
    assert entry["provenance"]["made_from"]["files"] == {"results/a.json": before}


@pytest.mark.parametrize("text", ["<html>a -- b</html>", "<html>\n</html>\n\n"])
def test_a_page_ends_with_what_it_was_made_from(text) -> None:
    recipe = {**RECIPE, "params": {"a--b-->": "1"}}
    with provenance.making(recipe):
        page = provenance.signed_page(text)
    assert provenance.check_page(page) == {**recipe, "files": {}}
    assert page.startswith(text.rstrip()) and page.count("-->") == 1
    with pytest.raises(ValueError, match="digest differs"):
        provenance.check_page(page.replace("<html>", "<html> "))
    assert provenance.check_page(text) is None


def test_a_written_record_fits_its_schema_and_has_a_digest(folder) -> None:
    made = {"stage": "plot", "status": "ok", "reason": None, "provenance": {}, "operator": None, "pictures": []}
    with provenance.making(RECIPE):
        record.write("plot", "results/plot/x/pictures.json", made)
    _, made_from = record.read_whole("plot", "results/plot/x/pictures.json")
    assert made_from["code"] == RECIPE["code"]


def test_a_folder_is_known_by_its_record(folder) -> None:
    Path("results/plot/add").mkdir(parents=True)
    assert provenance.digest_of("results/plot/add") is None
    Path("results/plot/add/pictures.json").write_text("{}")
    assert provenance.digest_of("results/plot/add") == provenance.digest_of("results/plot/add/pictures.json")
