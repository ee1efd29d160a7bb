"""Builds name installed sources where the DSL allows it, else go on."""

import sys
import types

from cutesnake.stages.compile.neutral_paths import name_installed_sources


def test_a_dsl_without_the_helpers_or_their_table_builds_as_it_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "cutlass", types.ModuleType("cutlass"))
    monkeypatch.delitem(sys.modules, "cutlass._mlir_helpers", raising=False)
    name_installed_sources()  # 4.5
    helpers = types.ModuleType("cutlass._mlir_helpers")
    helpers.op = types.ModuleType("cutlass._mlir_helpers.op")
    monkeypatch.setitem(sys.modules, "cutlass._mlir_helpers", helpers)
    name_installed_sources()


def test_installed_modules_are_named_from_their_package_on(monkeypatch):
    import msgspec

    helpers = types.ModuleType("cutlass._mlir_helpers")
    helpers.op = types.SimpleNamespace(_SOURCE_FILE_CACHE={})
    monkeypatch.setitem(sys.modules, "cutlass", types.ModuleType("cutlass"))
    monkeypatch.setitem(sys.modules, "cutlass._mlir_helpers", helpers)
    name_installed_sources()
    assert helpers.op._SOURCE_FILE_CACHE[msgspec.__file__] == "msgspec/__init__.py"
