"""What one process has made of PTX, taken by another.

Used where it would be made equal now, and nowhere else.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim.frontend import program, translations
from ptxsim.frontend.formats import FORMATS
from ptxsim.frontend.translations import Translations

# Lanes below ten take one way, so that there is code for all lanes and for some; a packed addition has a constant.
BODY = """
mov.u32 %r0, %tid.x;  ld.param.u64 %d0, [p0];
mul.wide.u32 %d1, %r0, 4;  add.u64 %d0, %d0, %d1;
setp.lt.u32 %p0, %r0, 10;
@%p0 bra LOW;
mov.b32 %r1, 0x3c003c00;  add.f16x2 %r1, %r1, %r1;
bra DONE;
LOW: mov.u32 %r1, 7;
DONE: st.global.u32 [%d0], %r1;
"""
TEXT = kernel_text(BODY, params=1)


def run(module: ptxsim.Module) -> list[int]:
    out = np.zeros(32, np.uint32)
    launch = ptxsim.launch(module, "k", (1,), (32,), (out,))
    assert not ptxsim.run(launch, schedule="random", seed=0).findings
    return out.tolist()


def forget() -> None:
    program._PROGRAMS._entries.clear()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done again from here on: `read` PTX, `translated` kernels, `compiled` blocks."""
    done: list[str] = []

    def counted(name: str, function):
        def call(*arguments, **options):
            done.append(name)
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(ptxsim.Module, "from_text", counted("read", ptxsim.Module.from_text))
    monkeypatch.setattr(program.Program, "__init__", counted("translated", program.Program.__init__))
    monkeypatch.setattr(program, "compile", counted("compiled", compile), raising=False)
    return done


def kept(folder: Path, text: str = TEXT) -> list[int]:
    """Run a text by way of a folder, as a process of its own would."""
    forget()
    shared = Translations(folder)
    module = shared.module(text, "here.ptx")
    result = run(module)
    shared.keep(module)
    return result


EXPECTED = [7] * 10 + [0x40004000] * 22


def test_what_was_kept_is_neither_read_nor_translated_nor_compiled_again(tmp_path: Path, made: list[str]) -> None:
    assert kept(tmp_path) == EXPECTED
    assert {"read", "translated", "compiled"} == set(made)
    made.clear()
    assert kept(tmp_path) == EXPECTED
    assert made == []
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.fault("Users", "a translation of PTX that another user can write", "not read")
@pytest.mark.parametrize("how", ["writable by the group", "writable by all", "a link", "another user's"])
def test_a_file_that_another_user_can_have_written_is_not_opened(
    how: str, tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    kept(folder)
    (file,) = folder.iterdir()
    if how == "a link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif how == "another user's":
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    else:
        file.chmod(0o620 if how.endswith("group") else 0o602)
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("it was loaded"))
    made.clear()
    assert kept(folder) == EXPECTED
    assert "read" in made


def test_without_a_folder_nothing_is_kept(made: list[str]) -> None:
    shared = Translations(None)
    module = shared.module(TEXT)
    run(module)
    shared.keep(module)
    assert "read" in made


def test_other_ptx_is_not_taken_for_it(tmp_path: Path, made: list[str]) -> None:
    kept(tmp_path)
    made.clear()
    assert kept(tmp_path, TEXT.replace("%r1, 7", "%r1, 8")) == [8] * 10 + EXPECTED[10:]
    assert "read" in made


def test_what_another_translator_has_made_is_not_used(
    tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(tmp_path)
    made.clear()
    monkeypatch.setattr(translations, "translator", lambda: "0123456789abcdef")
    assert kept(tmp_path) == EXPECTED
    assert "translated" in made


def test_a_change_of_any_source_of_ptxsim_makes_another_translator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ptxsim"
    (package / "isa").mkdir(parents=True)
    (package / "frontend").mkdir()
    (package / "isa/mma.py").write_text("a = 1\n")
    monkeypatch.setattr(translations, "__file__", str(package / "frontend/translations.py"))
    before = translations.translator.__wrapped__()
    (package / "isa/mma.py").write_text("a = 2\n")
    after = translations.translator.__wrapped__()
    assert before != after
    monkeypatch.setattr(sys, "version", "another Python")
    assert translations.translator.__wrapped__() not in (before, after)
    monkeypatch.setattr(np, "__version__", "another numpy")
    assert len({before, after, translations.translator.__wrapped__()}) == 3


@pytest.mark.parametrize("damage", [lambda c: c[: len(c) // 2], lambda c: b"", lambda c: c[:-1] + bytes([c[-1] ^ 1])])
def test_a_damaged_file_is_not_used_and_written_anew(tmp_path: Path, made: list[str], damage) -> None:
    kept(tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    made.clear()
    assert kept(tmp_path) == EXPECTED
    assert "read" in made
    made.clear()
    assert kept(tmp_path) == EXPECTED
    assert made == []


def test_a_folder_that_has_gone_or_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert kept(gone) == EXPECTED
    assert not gone.exists()


def test_what_runs_further_adds_its_code_to_the_file(tmp_path: Path, made: list[str]) -> None:
    text = kernel_text(f"ld.param.u64 %d2, [p1];  setp.ne.u64 %p1, %d2, 0;  @%p1 bra SKIP;\n{BODY}\nSKIP:", params=2)

    def short(folder: Path, skip: int) -> None:
        forget()
        shared = Translations(folder)
        module = shared.module(text)
        launch = ptxsim.launch(module, "k", (1,), (32,), (np.zeros(32, np.uint32), skip))
        ptxsim.run(launch, schedule="random", seed=0)
        shared.keep(module)

    short(tmp_path, 1)
    (file,) = tmp_path.iterdir()
    small = file.stat().st_size
    short(tmp_path, 0)
    assert file.stat().st_size > small
    made.clear()
    short(tmp_path, 0)
    assert made == []


def test_processes_that_write_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    code = """
import sys
from ptxsim.frontend.program import program_of
from ptxsim.frontend.translations import Translations

shared = Translations(sys.argv[1])
for blocks in range(1, 21):
    module = shared.module(sys.argv[2])
    (kernel,) = module.kernels.values()
    made = program_of(module, kernel)
    for block in made.blocks[:blocks]:
        made.compile(block, masked=False)
        made.compile(block, masked=True)
    shared.keep(module)
"""
    root = str(Path(ptxsim.__file__).parents[1])
    several = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), TEXT], env={"PYTHONPATH": root}) for _ in range(3)
    ]
    assert [process.wait(120) for process in several] == [0, 0, 0]
    (file,) = tmp_path.iterdir()
    assert translations._read(file) is not None
    assert kept(tmp_path) == EXPECTED


def test_messages_name_the_place_of_the_text_at_hand(tmp_path: Path) -> None:
    kept(tmp_path)
    forget()
    module = Translations(tmp_path).module(TEXT, "elsewhere.ptx")
    (kernel,) = module.kernels.values()
    made = program.program_of(module, kernel)
    assert str(made.fail(made.instructions[0], "no")).startswith("elsewhere.ptx:")


def test_a_format_out_of_a_file_is_the_one_that_code_asks_for() -> None:
    for fmt in FORMATS:
        assert pickle.loads(pickle.dumps(fmt)) is fmt
