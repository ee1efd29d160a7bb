"""What kernels answered is remembered between runs, until a file of code changes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from cutesnake.model.catalog import ContractError, load_kernel
from cutesnake.model.contract import Variant
from cutesnake.planning import config, kernel_queries, looked_at, staleness, strict_yaml
from kernels.matrices import Matrix
from project import ROOT


@pytest.fixture
def states(tmp_path, monkeypatch) -> list[str | None]:
    """The state of the code, which a test may change."""
    monkeypatch.chdir(tmp_path)
    result: list[str | None] = ["before"]
    monkeypatch.setattr(staleness, "_state", lambda folders: result[0])
    monkeypatch.setattr(kernel_queries, "recall", True)
    monkeypatch.setattr(kernel_queries, "SLOW_SECONDS", 0.0)
    looked_at.memory.cache_clear()
    yield result
    looked_at.memory.cache_clear()


def test_a_kernel_is_asked_again_only_if_code_changed(states, monkeypatch) -> None:
    whole = strict_yaml.read(ROOT / "config/config.yaml") | {"operators": ["elementwise_add"]}
    workload = config.check(whole).sweeps["elementwise_add"].workloads()[0]
    kernel = load_kernel("elementwise_add", "cute")
    calls = []
    variants = kernel.variants
    monkeypatch.setattr(kernel, "variants", lambda *asked: calls.append(asked) or variants(*asked))

    def ask():
        kernel_queries._known_variants.clear()
        return kernel_queries.variants(kernel, workload, "sm_90a")

    assert ask() == ask() == tuple(variants(workload, "sm_90a")) and len(calls) == 1
    states[0] = "after"
    assert ask() == tuple(variants(workload, "sm_90a")) and len(calls) == 2
    states[0] = None  # a file is too young for its stamp
    assert ask() == ask() and len(calls) == 4


def test_a_quick_answer_is_not_written_and_equal_variants_of_many_workloads_are_one(states, monkeypatch) -> None:
    monkeypatch.setattr(kernel_queries, "SLOW_SECONDS", 10.0)
    widths = {"a": ("v4", 4), "b": ("v4", 4), "c": ("v8", 8), "d": ("v8", 9)}

    def variants(workload, target):
        name, width = widths[workload.id]
        return (Variant(name, {"width": width}),)

    kernel = SimpleNamespace(__name__="kernels.op.quick", variants=variants)
    first, second, *others = (kernel_queries.variants(kernel, SimpleNamespace(id=name), "sm_90a") for name in widths)
    assert first is second
    assert [one.params for (one,) in others] == [{"width": 8}, {"width": 9}]
    assert not staleness.recalled("variants", "kernels.op.quick/sm_90a", dict)


def test_a_sweep_makes_each_workload_once(monkeypatch) -> None:
    made: list[Matrix] = []
    monkeypatch.setattr(Matrix, "__post_init__", lambda one: made.append(one))
    whole = strict_yaml.read(ROOT / "config/config.yaml") | {"operators": ["elementwise_add"]}
    whole["sweeps"] = {"elementwise_add": {"workloads": [{"rows": list(range(1, 41)), "columns": [3000, 3001]}]}}
    sweep = config.check(whole).sweeps["elementwise_add"]
    made_of_sweep = [one for one in made if one.columns >= 3000]
    assert len(sweep.workloads()) == 80 == len({id(one) for one in made_of_sweep}) == len(made_of_sweep)


def test_a_file_of_a_folder_changes_its_state(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(looked_at, "FINE_NS", -1)
    Path(tmp_path, "part").mkdir()
    Path(tmp_path, "part/back").symlink_to(tmp_path)
    Path(tmp_path, "part/nothing").symlink_to("nowhere")
    file = tmp_path / "part/one.py"
    file.write_text("1")
    first = looked_at.state_of([tmp_path])
    assert first == looked_at.state_of([tmp_path]) is not None
    file.write_text("22")
    assert looked_at.state_of([tmp_path]) != first


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "the id '.'; it may hold"),
        ("..", "the id '..'; it may hold"),
        (".hidden", "no `.` first"),
        ("x" * 250, "x{20}… of 250 characters; 150 at most"),
        ("x" * 300, "x{20}… of 300 characters; 150 at most"),
    ],
)
def test_the_id_of_a_variant_names_a_folder_of_its_own(name, message) -> None:
    kernel = SimpleNamespace(variants=lambda workload, target: (Variant(name, {}),))
    with pytest.raises(ContractError, match=message) as caught:
        kernel_queries.variants(kernel, SimpleNamespace(id="m1"), "sm_90a")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200
