"""Importing a kernel's module has no side effects, and odd files are no kernels."""

import os
import signal

import pytest

from cutesnake.model import catalog, limited_import
from cutesnake.model.catalog import ContractError, load_kernel

RIGHT = """
DSL = "cuda"
SOURCE = "ours"
TARGETS = {"sm_90a": ()}
def supports(workload): ...
def variants(workload, target): ...
def compile(variant, target, folder): ...
def bind(build, workload, inputs, outputs): ...
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of elementwise_add in a folder of the user's."""
    monkeypatch.setenv(catalog.PATHS, str(tmp_path))
    (tmp_path / "elementwise_add").mkdir()
    return tmp_path / "elementwise_add"


@pytest.mark.parametrize(
    "body", ["while True: pass", "import time; time.sleep(30)", "input()", "import os; os.read(os.pipe()[0], 1)"]
)
def test_an_import_that_does_not_end_is_one_line(folder, monkeypatch, body) -> None:
    monkeypatch.setattr(limited_import, "LIMIT_SECONDS", 0.2)
    monkeypatch.setattr("builtins.input", lambda: signal.pause())
    (folder / "endless.py").write_text(f"{RIGHT}{body}\n")
    with pytest.raises(
        ContractError, match=r"kernels/elementwise_add/endless.py:9: the import takes longer than 0.2 s"
    ):
        load_kernel("elementwise_add", "endless")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    monkeypatch.setattr(catalog, "_import", lambda name: pytest.fail("it waits again"))
    with pytest.raises(ContractError, match=r"endless.py:9: the import takes longer"):
        load_kernel("elementwise_add", "endless")


def test_a_module_that_raises_keyboard_interrupt_is_one_line(folder) -> None:
    (folder / "stops.py").write_text(f"{RIGHT}raise KeyboardInterrupt\n")
    with pytest.raises(ContractError, match=r"stops.py:9: KeyboardInterrupt is raised"):
        load_kernel("elementwise_add", "stops")


@pytest.fixture
def interruptible():
    """Python's handler of Ctrl-C, which a process that a shell started in the background lacks."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_during_an_import_ends_the_run(folder, interruptible) -> None:
    (folder / "pressed.py").write_text(f"{RIGHT}import signal; signal.raise_signal(signal.SIGINT)\n")
    with pytest.raises(KeyboardInterrupt):
        load_kernel("elementwise_add", "pressed")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_prints_and_a_change_of_folder_stay_in_the_module(folder, capsys) -> None:
    before = os.getcwd()
    (folder / "talks.py").write_text(f"{RIGHT}import os; os.chdir('/'); print('hello')\n")
    load_kernel("elementwise_add", "talks")
    assert os.getcwd() == before
    message = capsys.readouterr()
    assert message.out == "" and message.err == "hello\n"


def test_a_folder_or_a_pipe_with_the_name_of_a_module_is_no_kernel(folder) -> None:
    (folder / "x.py").mkdir()
    os.mkfifo(folder / "pipe.py")
    assert not {"x", "pipe"} & catalog.kernel_files("elementwise_add").keys()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a:b", "has a ':' in it"),
        ("a\0b", r"a\\0b: embedded null byte"),
        ("x" * 5000, "xx…: File name too long"),
        ("loop", "loop: "),
    ],
)
def test_a_path_that_cannot_be_a_folder_is_one_short_line(tmp_path, name, message) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(ContractError, match=message) as caught:
        catalog.use_paths([f"{tmp_path}/{name}"])
    assert str(caught.value).startswith("kernel_paths: ")
    assert "\n" not in str(caught.value) and "\0" not in str(caught.value) and len(str(caught.value)) < 400
