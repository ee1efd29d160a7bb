"""Builds without torch: what imports find instead of it, and that it is taken back."""

import importlib
import sys
import types

import pytest

from cutesnake.stages.compile.torch_import import StandIn, without_torch


@pytest.fixture(autouse=True)
def no_torch_yet(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)


def test_a_block_without_torch_hides_it_and_one_within_brings_a_stand_in() -> None:
    with without_torch():
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("torch")
        with without_torch(StandIn("torch")):
            torch = importlib.import_module("torch")
            assert isinstance(torch.device, type) and torch.device is torch.device and torch.device is not torch.Tensor
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("torch")
    assert "torch" not in sys.modules


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
