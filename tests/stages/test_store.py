"""The store.

The same parts are made once, other parts again, and nothing half-written is ever taken.
"""

from pathlib import Path

import pytest

from cutesnake.stages.compile import store


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    return tmp_path


def writer(path: Path, calls: list[str]):
    def make() -> None:
        calls.append(path.name)
        path.write_text(f"made {len(calls)}")

    return make


def test_made_once_and_copied(folder) -> None:
    calls: list[str] = []
    for name in ("a.cubin", "b.cubin"):
        store.reuse(folder / name, [b"code", "sm_90"], writer(folder / name, calls))
    assert calls == ["a.cubin"]
    assert (folder / "a.cubin").read_text() == (folder / "b.cubin").read_text() == "made 1"


@pytest.mark.parametrize("other", [[b"code", "sm_100"], [b"codesm_90"], [b"code", "sm_90", ""]])
def test_any_other_part_is_made_anew(folder, other) -> None:
    calls: list[str] = []
    for name, parts in (("a.sass", [b"code", "sm_90"]), ("b.sass", other)):
        store.reuse(folder / name, parts, writer(folder / name, calls))
    assert calls == ["a.sass", "b.sass"]


def test_a_failure_leaves_nothing_behind(folder) -> None:
    def fail() -> None:
        raise OSError("no")

    with pytest.raises(OSError):
        store.reuse(folder / "a.cubin", [b"code"], fail)
    calls: list[str] = []
    store.reuse(folder / "a.cubin", [b"code"], writer(folder / "a.cubin", calls))
    assert calls == ["a.cubin"]


def test_without_a_store_everything_is_made(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv(store.VARIABLE, raising=False)
    calls: list[str] = []
    for _ in range(2):
        store.reuse(tmp_path / "a.cubin", [b"code"], writer(tmp_path / "a.cubin", calls))
    assert calls == ["a.cubin"] * 2


@pytest.mark.fault("Results", "a file in the store of compiled functions changed", "not used")
def test_what_was_damaged_is_made_anew(folder) -> None:
    calls: list[str] = []
    for name in ("a.cubin", "b.cubin", "c.cubin"):
        store.reuse(folder / name, [b"code"], writer(folder / name, calls))
        (kept,) = (folder / "store").iterdir()
        if name == "a.cubin":
            kept.write_text("MADE 1")
    assert calls == ["a.cubin", "b.cubin"]
    assert (folder / "c.cubin").read_text() == "made 2"


def test_what_is_reused_counts_with_the_time_that_it_took(folder, monkeypatch) -> None:
    spent = [0.0]
    monkeypatch.setattr(store.os, "times", lambda: (spent[0], 0.0, 0.0, 0.0, 0.0))

    def compiled(name: str) -> None:
        spent[0] += 1.5
        (folder / name).write_text("code")

    for name in ("a.cubin", "b.cubin"):
        began = store.processor_seconds()
        store.reuse(folder / name, [b"code"], lambda name=name: compiled(name))
        assert store.processor_seconds() - began == pytest.approx(1.5)
    assert spent == [1.5]
