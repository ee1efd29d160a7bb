"""Locks and records with shared machines, shared folders and long temporary paths."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cutesnake.model import record
from cutesnake.model.paths import SCRIPTS
from cutesnake.runtime import folder as working
from cutesnake.runtime import gpu_slots, locks
from cutesnake.stages.compile import store

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    yield lambda mask: os.umask(mask) and None
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o077, 0o027, 0o022])
def test_the_lock_of_a_gpu_can_be_read_by_everybody_whatever_the_umask(mask, umask, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(locks, "GPU_FOLDER", tmp_path)
    umask(mask)
    with locks.gpu_lock("one"):
        assert mode(locks.gpu_lock_path("one")) == 0o644
    assert [path.name for path in tmp_path.iterdir()] == [locks.gpu_lock_path("one").name]


TAKE = """
import os, sys
from pathlib import Path
sys.path.insert(0, {scripts!r})
from cutesnake.runtime import locks
os.setgid({nobody}); os.setuid({nobody})
locks.GPU_FOLDER = Path({folder!r})
with locks.gpu_lock("one"):
    print("locked")
"""


@pytest.mark.fault("Users", "the first user of a GPU has `umask 077`", "the lock file is readable by all")
@needs_root
def test_another_user_takes_a_gpu_whose_lock_was_made_under_a_strict_umask(umask, shared, monkeypatch) -> None:
    monkeypatch.setattr(locks, "GPU_FOLDER", shared)
    umask(0o077)
    code = TAKE.format(scripts=str(SCRIPTS), folder=str(shared), nobody=NOBODY)
    with locks.gpu_lock("one"):
        other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            other.communicate(timeout=1.0)
    assert other.communicate(timeout=20)[0] == "locked\n" and other.returncode == 0


def test_two_processes_that_create_a_gpus_lock_at_once_have_one_file(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(locks, "GPU_FOLDER", tmp_path)
    link, seen = os.link, []

    def link_second(source: Path, target: Path) -> None:
        if not seen:
            seen.append(target.touch())
        link(source, target)

    monkeypatch.setattr(os, "link", link_second)
    with locks.gpu_lock("one") as handle:
        assert os.fstat(handle).st_ino == locks.gpu_lock_path("one").stat().st_ino
    assert seen and len(list(tmp_path.iterdir())) == 1


@pytest.mark.fault(
    "Users", "a group shares a folder with `umask 002`", "records, locks and the store are group-writable"
)
@pytest.mark.parametrize(("mask", "expected"), [(0o002, 0o664), (0o022, 0o644), (0o077, 0o600)])
def test_records_and_locks_of_a_shared_folder_follow_the_umask(mask, expected, umask, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(working, "_kept_open", [])
    monkeypatch.setenv(gpu_slots.AT_ONCE, "1")
    umask(mask)
    record.write_text("results/one.json", "{}")
    monkeypatch.setenv(store.VARIABLE, "results/store")
    store.reuse(Path("results/one.sass"), ["code"], lambda: Path("results/one.sass").touch())
    (kept,) = Path("results/store").iterdir()
    working.claim("")
    os.close(working._kept_open.pop())
    os.close(gpu_slots._open_slot(0))
    files = [Path("results/one.json"), kept, Path(working.LOCK), gpu_slots.SLOTS / "0.lock"]
    assert [mode(path) for path in files] == [expected] * 4


def test_a_record_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        record.write_text(tmp_path / "one.json", "{}")
    assert not list(tmp_path.iterdir())
