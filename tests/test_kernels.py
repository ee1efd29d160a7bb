"""Every kernel keeps the contract, and its module loads where there is neither DSL nor torch."""

import re
import subprocess
import sys

import pytest

from cutesnake.contract import load_kernel, load_operator
from cutesnake.places import ROOT
from cutesnake.plan.arch import FEATURES, TARGET_CAPABILITY
from cutesnake.plan.config import kernel_names

OPERATORS = sorted(path.parent.name for path in (ROOT / "kernels").glob("*/operator.py"))
KERNELS = [(operator, kernel) for operator in OPERATORS for kernel in kernel_names(operator)]
EXAMPLE = {
    "mla_decode": [{"batch": 1, "kv_length": 1024}, {"batch": 3, "kv_length": 65, "paged": True}],
    "elementwise_add": [{"rows": 3, "columns": 1000}],
}


def test_every_operator_has_an_example_here() -> None:
    assert set(EXAMPLE) == set(OPERATORS)


@pytest.mark.parametrize(("operator", "kernel"), KERNELS)
def test_a_contract_says_what_it_needs_in_known_words(operator, kernel) -> None:
    module = load_kernel(operator, kernel)
    assert module.DSL in {"cute", "cutile", "torch", "cuda"} and module.SOURCE and module.TARGETS
    for target, needs in module.TARGETS.items():
        known = FEATURES[TARGET_CAPABILITY[target]]
        assert all(word in known for word in re.split(r", | and ", needs) if needs), f"{target}: {needs!r}"


@pytest.mark.parametrize(("operator", "kernel"), KERNELS)
def test_variants_have_unique_ids_that_name_folders(operator, kernel) -> None:
    module, problem = load_kernel(operator, kernel), load_operator(operator)
    supported = 0
    for values in EXAMPLE[operator]:
        for dtype in problem.DTYPES:
            workload = problem.Workload(**values, dtype=dtype)
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


@pytest.mark.parametrize(("operator", "kernel"), KERNELS)
def test_importing_a_contract_needs_neither_torch_nor_a_dsl(operator, kernel) -> None:
    forbid = (
        "import sys\n"
        "for name in ('torch', 'cutlass', 'cuda', 'tvm_ffi', 'numpy'): sys.modules[name] = None\n"
        f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'workflow/scripts')!r}]\n"
        f"import kernels.{operator}.{kernel}\n"
    )
    done = subprocess.run([sys.executable, "-c", forbid], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
