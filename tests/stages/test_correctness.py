"""The correctness stage around the checker.

Bindings, related sizes, refusals, and the record that comes of them.
"""

import dataclasses
import json

import pytest

from cpu_backend import CpuBackend, right, small_case
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.stages.measure.case import make_record
from cutesnake.stages.measure.correctness import Bound, check_case

torch = pytest.importorskip("torch")


class CountingBackend(CpuBackend):
    """Counts bindings, and refuses or plans as configured."""

    def __init__(self, kernel=right, refuses=None):
        super().__init__(kernel)
        self.bindings = []
        self._refuses = refuses

    def bind(self, case, workload, inputs, outputs):
        self.bindings.append((workload.id, tuple(inputs.kv_lengths.tolist())))
        if self._refuses and self._refuses(inputs):
            raise ValueError("every request must be as long as the others")
        return super().bind(case, workload, inputs, outputs)


def unequal(inputs):
    return bool((inputs.kv_lengths != inputs.kv_lengths[0]).any())


def test_only_lengths_ask_for_a_new_binding():
    backend = CountingBackend()
    case = dataclasses.replace(small_case(), settings={"seeds": [0, 1], "distributions": ["randn", "large", "ragged"]})
    check_case(case, backend)
    mine = [lengths for workload, lengths in backend.bindings if workload == case.workload.id]
    assert len(mine) == 3 and mine[0] == (200, 200, 200), "one for equal lengths, one for each ragged draw"


def test_a_schedule_made_for_other_lengths_would_show():
    # A kernel that keeps the lengths of its first launch and is not bound again computes the wrong thing.
    kept = {}

    def forgetful(workload, inputs, outputs):
        lengths = kept.setdefault(workload.id, inputs.kv_lengths.clone())
        right(workload, dataclasses.replace(inputs, kv_lengths=lengths), outputs)

    case = dataclasses.replace(small_case(), settings={"seeds": [0], "distributions": ["randn", "ragged"]})
    metrics, _ = check_case(case, CpuBackend(forgetful))
    assert [c["passed"] for c in metrics["checks"][:2]] == [True, False]


class PlanningBackend(CountingBackend):
    """Its kernel goes by the lengths that `bind` or `plan` saw last.

    A plan that is `stale` keeps the old ones.
    """

    def __init__(self, stale=False):
        super().__init__()
        self.plans = 0
        self._stale = stale

    def bind(self, case, workload, inputs, outputs):
        super().bind(case, workload, inputs, outputs)
        seen = {"lengths": inputs.kv_lengths.clone()}

        def plan():
            self.plans += 1
            if not self._stale:
                seen["lengths"] = inputs.kv_lengths.clone()

        def run(schedule, seed):
            right(workload, dataclasses.replace(inputs, kv_lengths=seen["lengths"]), outputs)

        return Bound(run, plan)


RAGGED = {"seeds": [0, 1, 2], "distributions": ["randn", "ragged"]}


def test_a_plan_and_a_new_binding_take_turns_where_lengths_change():
    backend = PlanningBackend()
    case = dataclasses.replace(small_case(), settings=RAGGED)
    _, reason = check_case(case, backend)
    mine = [lengths for workload, lengths in backend.bindings if workload == case.workload.id]
    assert reason is None and len(mine) == 2 and backend.plans >= 2  # four draws of lengths


def test_a_plan_that_keeps_the_old_lengths_shows():
    case = dataclasses.replace(small_case(), settings=RAGGED)
    metrics, reason = check_case(case, PlanningBackend(stale=True))
    mine = [c["passed"] for c in metrics["checks"] if c["workload"] == case.workload.id]
    assert reason is not None and mine == [True, True, True, False, True, False]


def test_what_a_kernel_refuses_is_skipped_with_its_words():
    metrics, reason = check_case(small_case(), CountingBackend(refuses=unequal))
    assert reason is None and metrics["failed"] == 0
    refused = [s for s in metrics["skipped"] if s["distribution"] == "ragged"]
    assert refused and "as long as the others" in refused[0]["reason"]


def test_a_kernel_that_refuses_everything_has_not_passed():
    metrics, reason = check_case(small_case(), CountingBackend(refuses=lambda inputs: True))
    assert metrics["checks"] == [] and reason.startswith("nothing could be checked: every request must be as long")


def test_related_sizes_that_the_build_is_not_for_are_named(monkeypatch):
    kernel = load_kernel("mla_decode", "torch_sdpa")
    monkeypatch.setattr(kernel, "supports", lambda w: "no shuffled pages" if w.paged else None)
    metrics, reason = check_case(small_case(), CpuBackend(right))
    assert reason is None
    assert {
        "workload": f"{small_case().workload.id}_paged",
        "distribution": None,
        "reason": "no shuffled pages",
    } in metrics["skipped"]


def nan_where_a_request_is_empty(workload, inputs, outputs):
    right(workload, inputs, outputs)
    outputs.out[inputs.kv_lengths == 0] = float("nan")


def test_a_failure_beyond_what_a_kernel_promises_is_recorded_and_fails_nothing(monkeypatch):
    assert check_case(small_case(), CpuBackend(nan_where_a_request_is_empty))[1] is not None
    kernel = load_kernel("mla_decode", "torch_sdpa")
    monkeypatch.setattr(kernel, "UNSUPPORTED", {"empty_requests": "it is for requests with keys"}, raising=False)
    metrics, reason = check_case(small_case(), CpuBackend(nan_where_a_request_is_empty))
    past = [c for c in metrics["checks"] if c["distribution"] == "empty_requests"]
    assert reason is None and metrics["failed"] == 0
    assert [c["passed"] for c in past] == [False, False] and "NaN" in past[0]["reason"]
    assert {c.get("outside") for c in past} == {"it is for requests with keys"}
    assert metrics["checks"][-2:] == past, "last: what breaks there must not keep anything else from being checked"
    entry = make_record(small_case(), metrics, reason)
    record.check("correctness", json.loads(json.dumps(entry, allow_nan=False)), "record")


def test_what_is_beyond_a_kernels_promise_is_no_proof_that_it_works(monkeypatch):
    kernel = load_kernel("mla_decode", "torch_sdpa")
    monkeypatch.setattr(kernel, "UNSUPPORTED", {"randn": "it promises nothing"}, raising=False)
    case = dataclasses.replace(small_case(), settings={"seeds": [0], "distributions": ["randn"]})
    _, reason = check_case(case, CpuBackend(right))
    assert reason.startswith("nothing could be checked")


def test_inputs_of_another_shape_are_bound_anew():
    backend = CountingBackend()
    case = dataclasses.replace(small_case(), settings={"seeds": [0], "distributions": ["randn", "bad_table", "randn"]})
    _, reason = check_case(case, backend)
    assert reason is None and len([b for b in backend.bindings if b[0] == case.workload.id]) == 3


def test_the_record_fits_its_schema():
    metrics, reason = check_case(small_case(), CpuBackend(right))
    entry = make_record(small_case(), metrics, reason)
    record.check("correctness", json.loads(json.dumps(entry, allow_nan=False)), "record")


def test_a_failed_record_with_nan_fits_its_schema():
    metrics, reason = check_case(small_case(), CpuBackend(lambda *_: None))
    entry = make_record(small_case(), metrics, reason)
    record.check("correctness", json.loads(json.dumps(entry, allow_nan=False)), "record")
    assert entry["status"] == "failed" and "NaN" in entry["reason"]


@pytest.mark.parametrize("changes", [{}, {"query_tokens": 3}, {"query_tokens": 3, "causal": False}, {"dtype": "fp16"}])
def test_the_pytorch_baseline_is_right(changes):
    """The very code that is timed, on the CPU."""
    kernel = load_kernel("mla_decode", "torch_sdpa")

    class Baseline(CpuBackend):
        def bind(self, case, workload, inputs, outputs):
            runner = kernel.bind(None, workload, inputs, outputs)
            return Bound(lambda schedule, seed: runner(0))

    case = small_case(**changes)
    metrics, reason = check_case(case, Baseline(right))
    assert reason is None, [c for c in metrics["checks"] if not c["passed"]][:1]
    assert (
        tuple(dict.fromkeys(c["distribution"] for c in metrics["checks"])) == load_operator("mla_decode").DISTRIBUTIONS
    )


def test_related_sizes_are_checked_with_the_distributions_that_the_operator_names(monkeypatch):
    operator = load_operator("mla_decode")
    case = dataclasses.replace(small_case(), settings={"seeds": [0, 1], "distributions": ["large", "randn", "ragged"]})

    def related():
        metrics, _ = check_case(case, CpuBackend(right))
        return {(c["distribution"], c["seed"]) for c in metrics["checks"] if c["workload"] != case.workload.id}

    assert related() == {(name, 0) for name in operator.RELATED} == {("randn", 0), ("ragged", 0)}
    monkeypatch.setattr(operator, "RELATED", ("large",))
    assert related() == {("large", 0)}
    assert load_operator("gemm").RELATED == ("randn",)  # which it does not name
