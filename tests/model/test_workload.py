"""What operators share: every operator refuses wrong sizes and element types in the same words."""

import dataclasses
import re

import pytest

from cutesnake.model import catalog
from cutesnake.model.workload import TORCH, require_choice, torch_dtype

OPERATORS = [path.parent.name for path in sorted((catalog.ROOT / "kernels").glob("*/operator.py"))]


def arguments(operator: str) -> tuple[type, dict[str, int]]:
    """The class of an operator's workloads, and 256 for each size that has no default."""
    made = catalog.load_operator(operator).Workload
    needed = [field.name for field in dataclasses.fields(made) if field.default is dataclasses.MISSING]
    return made, dict.fromkeys(needed, 256)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("value", [0, -1, True, 2.0, "8"])
def test_no_operator_takes_a_size_that_is_no_whole_number_from_1_up(operator, value) -> None:
    made, sizes = arguments(operator)
    made(**sizes)
    for name in sizes:
        with pytest.raises(ValueError, match=re.escape(f"{name} is {value!r}; it must be a whole number from 1 up")):
            made(**{**sizes, name: value})


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_says_which_element_types_and_distributions_it_has(operator) -> None:
    problem, (made, sizes) = catalog.load_operator(operator), arguments(operator)
    with pytest.raises(ValueError, match=re.escape(f"dtype is 'fp5'; allowed: {', '.join(problem.DTYPES)}")):
        made(**sizes, dtype="fp5")
    with pytest.raises(ValueError, match="distribution is 'huge'; allowed: "):
        problem.make_inputs(made(**sizes), 0, distribution="huge")


def test_a_choice_is_named_with_what_is_allowed() -> None:
    require_choice("layout", "row", ("row", "column"))
    with pytest.raises(ValueError, match="layout is 'diagonal'; allowed: row, column"):
        require_choice("layout", "diagonal", (name for name in ("row", "column")))


def test_torch_has_every_named_element_type() -> None:
    import torch

    assert all(isinstance(torch_dtype(name), torch.dtype) for name in TORCH)
