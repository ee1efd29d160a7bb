"""Builds with DSLs before 4.8: no source table, no launch facts in IR."""

import sys
import types

from cutesnake.stages.compile.cute import launch_of_ptx
from cutesnake.stages.compile.neutral_paths import name_installed_sources

PTX = """
.visible .entry single(
	.param .u64 single_param_0
)
.reqntid 256, 1, 1
{
	ret;
}
.visible .entry pair(
	.param .u64 pair_param_0
)
.reqntid 384
.explicitcluster
.reqnctapercluster 2, 1, 1
{
	ret;
}
.visible .entry open(
	.param .u64 open_param_0
)
.explicitcluster
{
	ret;
}
"""


def test_block_and_cluster_come_from_ptx():
    assert launch_of_ptx(PTX, {"pair": 1024}) == {
        "single": {"block": [256, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_bytes": None},
        "pair": {"block": [384, 1, 1], "cluster": [2, 1, 1], "dynamic_shared_bytes": 1024},
        "open": {"block": None, "cluster": None, "dynamic_shared_bytes": None},
    }


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
