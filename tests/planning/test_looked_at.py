"""What is known about a file holds until its content changes."""

import os
import time
from pathlib import Path

import pytest

from cutesnake.planning import looked_at


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path(".snakemake").mkdir()
    looked_at.memory.cache_clear()
    yield tmp_path
    looked_at.memory.cache_clear()


@pytest.fixture
def settled(monkeypatch) -> None:
    """Files count as old enough that a later write leaves another date."""
    monkeypatch.setattr(looked_at, "FINE_NS", -1)


def test_a_file_is_read_once(folder, settled, monkeypatch) -> None:
    Path("a").write_text("one")
    first = looked_at.digest("a")
    looked_at.memory().save()
    looked_at.memory.cache_clear()
    monkeypatch.setattr(looked_at.hashlib, "file_digest", lambda *_: pytest.fail("read again"))
    assert looked_at.digest("a") == first


@pytest.mark.fault("Results", "a number in a result edited by hand, with size and date restored", "remade")
def test_an_edit_of_equal_size_whose_date_is_put_back_shows(folder, settled) -> None:
    path = Path("a")
    path.write_text("one")
    before, dates = looked_at.digest("a"), path.stat()
    time.sleep(0.02)
    path.write_text("two")
    os.utime(path, ns=(dates.st_atime_ns, dates.st_mtime_ns))
    assert looked_at.digest("a") != before


def test_what_was_just_written_is_looked_at_again(folder) -> None:
    """A second write within the clock's step would leave the same dates."""
    Path("a").write_text("one")
    looked_at.digest("a")
    assert not looked_at.memory().entries.get("files")


@pytest.mark.fault("Results", "notes in `.snakemake/` damaged", "rewritten")
@pytest.mark.parametrize("damage", ["", "{", "[" * 100_000, "0\n{}\n", "\udcff", 'x\n{"files": {"a": ["", "0"]}}\n'])
def test_a_damaged_memory_is_empty(folder, settled, damage) -> None:
    looked_at.KNOWN.write_bytes(damage.encode(errors="surrogateescape"))
    Path("a").write_text("one")
    assert looked_at.digest("a") == looked_at.hashlib.sha256(b"one").hexdigest()[:16]


def test_entries_of_files_that_nobody_asks_for_do_not_pile_up(folder, settled, monkeypatch) -> None:
    monkeypatch.setattr(looked_at, "SPARE", 5)
    for number in range(10):
        Path(str(number)).write_text("one")
        looked_at.digest(str(number))
        looked_at.memory().save()
        looked_at.memory.cache_clear()
    assert len(looked_at.memory().entries["files"]) <= 6


def test_without_a_folder_for_notes_nothing_is_written(tmp_path, settled, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    looked_at.memory.cache_clear()
    Path("a").write_text("one")
    looked_at.digest("a")
    looked_at.memory().save()
    assert os.listdir() == ["a"]
    looked_at.memory.cache_clear()
