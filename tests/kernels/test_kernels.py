"""Every kernel keeps the contract and loads without DSL and torch."""

import dataclasses
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cutesnake.model import catalog
from cutesnake.model.catalog import kernel_files, load_kernel, load_operator, operators
from cutesnake.model.dsls import DSLS
from cutesnake.model.paths import ROOT
from cutesnake.model.targets import FEATURES, TARGETS
from cutesnake.planning.config import check
from cutesnake.planning.sweep import Sweep

DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
KERNELS = [(operator, kernel) for operator in operators() for kernel in kernel_files(operator)]


@functools.cache
def sweep(operator: str) -> Sweep:
    return check({**DEFAULT, "operators": [operator]}).sweeps[operator]


def covering(workloads: list[Any]) -> list[Any]:
    """The workloads that have a value of a parameter which none before them has."""
    seen: set[tuple[str, Any]] = set()
    chosen = []
    for workload in workloads:
        if new := set(vars(workload).items()) - seen:
            chosen.append(workload)
            seen |= new
    return chosen


def test_every_operator_is_in_the_default_experiment() -> None:
    assert sorted(DEFAULT["operators"]) == operators()


def test_of_the_files_of_an_operator_only_the_kernels_own_is_looked_into(monkeypatch) -> None:
    # Each job does so. Parsing all kernels of an operator for each took a tenth of a run that has nothing to do.
    looked_into: list[Path] = []
    monkeypatch.setattr(catalog, "_sets_dsl", lambda path: looked_into.append(path) or True)
    result = catalog.kernel_file("mla_decode", "cute_sm90")
    assert result == ROOT / "kernels/mla_decode/cute_sm90/__init__.py" and looked_into == [result]
    assert catalog.kernel_file("mla_decode", "no_such_kernel") is None


@pytest.mark.parametrize("operator", operators())
def test_every_kernel_of_an_operator_is_in_its_sweep(operator) -> None:
    assert sorted(sweep(operator).kernels) == list(kernel_files(operator))


@pytest.mark.parametrize("operator", operators())
def test_a_sweep_has_small_workloads_for_simulation_and_something_to_profile(operator) -> None:
    assert sweep(operator).simulated("short") and sweep(operator).simulated("full") and sweep(operator).profile


@pytest.mark.parametrize(("operator", "kernel"), KERNELS)
def test_a_kernel_that_is_compiled_and_can_be_simulated_is_so_in_the_default_report(operator, kernel) -> None:
    module = load_kernel(operator, kernel)
    compiled = any(module.supports(workload) is None for workload in sweep(operator).workloads())
    if compiled and not DSLS[module.DSL].not_simulated:
        assert any(module.supports(workload) is None for workload in sweep(operator).simulated("short"))
        left_out = DEFAULT["simulation"]["short"]["without"].get(module.DSL, [])
        known = [name for name in DEFAULT["targets"] if name in TARGETS and TARGETS[name].simulated_processors]
        assert [target for target in known if target in module.TARGETS and target not in left_out]


@pytest.mark.parametrize(("operator", "kernel"), KERNELS)
def test_a_kernel_that_calls_pytorch_beside_its_launches_says_so(operator, kernel) -> None:
    source = Path(load_kernel(operator, kernel).__file__).read_text()
    if load_kernel(operator, kernel).DSL in ("cute", "cutile"):
        assert ("with on_stream(" in source) == ("with_torch=True" in source)


@pytest.mark.parametrize(("operator", "kernel"), KERNELS)
def test_a_contract_says_what_it_needs_in_known_words(operator, kernel) -> None:
    module = load_kernel(operator, kernel)
    assert module.DSL in DSLS and module.SOURCE and module.TARGETS
    for target, needs in module.TARGETS.items():
        assert set(needs) <= FEATURES[TARGETS[target].capability], f"{target}: {needs!r}"


@pytest.mark.parametrize(("operator", "kernel"), KERNELS)
def test_variants_have_unique_ids_that_name_folders(operator, kernel) -> None:
    module, problem = load_kernel(operator, kernel), load_operator(operator)
    supported = 0
    for known in covering([*sweep(operator).workloads(), *sweep(operator).simulated("full")]):
        for dtype in problem.DTYPES:
            workload = dataclasses.replace(known, dtype=dtype)
            reason = module.supports(workload)
            if reason is not None:
                assert reason and "\n" not in reason
                continue
            supported += 1
            for target in module.TARGETS:
                ids = [variant.id for variant in module.variants(workload, target)]
                assert ids and len(ids) == len(set(ids))
                assert all(re.fullmatch(r"[\w.-]+", name) for name in ids)
    assert supported, "supports none of the examples"


def test_importing_a_contract_needs_neither_torch_nor_a_dsl() -> None:
    forbid = (
        "import importlib, sys\n"
        "for name in ('torch', 'cutlass', 'cuda', 'tvm_ffi', 'numpy'): sys.modules[name] = None\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
    )
    modules = [f"kernels.{operator}.{kernel}" for operator, kernel in KERNELS]
    done = subprocess.run([sys.executable, "-c", forbid, *modules], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
