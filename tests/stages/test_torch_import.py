"""Builds without torch: what imports find instead of it, and that it is taken back."""

import importlib
import importlib.util
import sys
import types

import pytest

from cutesnake.stages.compile import limited_process
from cutesnake.stages.compile.torch_import import StandIn, without_torch


@pytest.fixture(autouse=True)
def no_torch_yet(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def torch_file(tmp_path, monkeypatch) -> None:
    """A torch that imports at once."""
    (tmp_path / "torch.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(tmp_path)


def torch_seen_by(module: str) -> types.ModuleType:
    """Import torch as code of `module` does."""
    names = {"__name__": module}
    exec("import importlib\nimport torch\nassert torch is importlib.import_module('torch')", names)
    return names["torch"]


@pytest.mark.parametrize("package", ["tvm_ffi", "tvm_ffi.core", "cuda.tile._cext"])
def test_a_block_hides_torch_from_packages_that_look_for_its_types(torch_file, package) -> None:
    with without_torch():
        with pytest.raises(ModuleNotFoundError):
            torch_seen_by(package)
        with without_torch(StandIn("torch")):
            torch = torch_seen_by(package)
            assert isinstance(torch.device, type) and torch.device is torch.device and torch.device is not torch.Tensor
        with pytest.raises(ModuleNotFoundError):
            torch_seen_by(package)
    assert "torch" not in sys.modules and torch_seen_by(package).real


def test_a_kernel_within_a_block_imports_torch_which_stays(torch_file) -> None:
    with without_torch():
        assert torch_seen_by("kernels.mine.kernel").real
        assert torch_seen_by("tvm_ffi").real  # as it would see what a kernel had imported before
    assert sys.modules["torch"].real


def test_modules_of_a_stand_in_can_be_imported_by_name() -> None:
    stand_in = types.ModuleType("torch")
    stand_in.nn = types.ModuleType("torch.nn")
    with without_torch(stand_in):
        assert importlib.import_module("torch.nn") is stand_in.nn
    assert "torch.nn" not in sys.modules


def test_a_torch_that_is_imported_already_stays(monkeypatch) -> None:
    real = types.ModuleType("torch")
    monkeypatch.setitem(sys.modules, "torch", real)
    with without_torch(StandIn("torch")):
        assert importlib.import_module("torch") is real
    assert sys.modules["torch"] is real


def test_what_is_imported_within_a_block_stays_imported() -> None:
    sys.modules.pop("colorsys", None)
    with without_torch(StandIn("torch")):
        importlib.import_module("colorsys")
    assert "colorsys" in sys.modules


def test_a_torch_that_is_missing_is_the_machines_fault(monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    fault = limited_process._machines_fault(ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert fault == "No module named 'torch'; install it with: pip install -r envs/requirements.txt"
