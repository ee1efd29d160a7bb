"""The checker must fail every kind of wrong result.

Each fault here is one that a real kernel has had.
"""

import dataclasses
import math

import pytest

from cpu_backend import SMALL, CpuBackend, right, small_case
from cutesnake.model.catalog import load_operator
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.correctness import check_case

torch = pytest.importorskip("torch")
mla = load_operator("mla_decode")


def only_randn(case):
    return dataclasses.replace(case, settings={"seeds": [0], "distributions": ["randn"]})


def judge(kernel, **changes):
    """Checks and reason of a kernel on the random distribution alone."""
    return check_case(only_randn(small_case(**changes)), CpuBackend(kernel))


def test_a_right_kernel_passes_everywhere():
    metrics, reason = check_case(small_case(), CpuBackend(right))
    assert reason is None
    assert metrics["failed"] == 0 and metrics["deterministic"] is True
    assert {c["distribution"] for c in metrics["checks"]} == set(mla.DISTRIBUTIONS)
    assert {c["workload"] for c in metrics["checks"] if "paged" in c["workload"]}, "pages were never shuffled"
    assert {c["workload"] for c in metrics["checks"] if "s173" in c["workload"]}, "no length that is no tile's multiple"


def zero(workload, inputs, outputs):
    outputs.out.zero_()
    outputs.lse.zero_()


def permuted_head(workload, inputs, outputs):
    right(workload, inputs, outputs)
    outputs.out[-1, 0, [2, 3]] = outputs.out[-1, 0, [3, 2]]


def dropped_last_tile(workload, inputs, outputs):
    """Reads only the keys below the last multiple of 64."""
    lengths = torch.clamp(inputs.kv_lengths // 64 * 64, min=1).to(torch.int32)
    right(workload, dataclasses.replace(inputs, kv_lengths=lengths), outputs)


def read_past_the_end(workload, inputs, outputs):
    """Forgets to mask the tail of the last page."""
    lengths = -(-inputs.kv_lengths // 64) * 64
    right(workload, dataclasses.replace(inputs, kv_lengths=lengths.to(torch.int32)), outputs)


def no_output(workload, inputs, outputs):
    pass


def last_row_missing(workload, inputs, outputs):
    before = outputs.out[-1, -1, -1].clone()
    right(workload, inputs, outputs)
    outputs.out[-1, -1, -1] = before


def wrong_lse_base(workload, inputs, outputs):
    right(workload, inputs, outputs)
    outputs.lse /= math.log(2)


@pytest.mark.parametrize(
    "kernel",
    [zero, permuted_head, dropped_last_tile, read_past_the_end, no_output, last_row_missing, wrong_lse_base],
    ids=lambda kernel: kernel.__name__,
)
def test_a_wrong_result_fails(kernel):
    metrics, reason = judge(kernel)
    assert reason is not None
    assert not metrics["checks"][0]["passed"]


def test_what_is_left_unwritten_is_named():
    _, reason = judge(last_row_missing)
    assert "64 elements of out are NaN" in reason


def test_one_wrong_head_in_a_large_batch_fails():
    """Among 64 x 16 heads it hides in the norm; the worst row shows it."""

    def slightly_wrong_head(workload, inputs, outputs):
        right(workload, inputs, outputs)
        outputs.out[-1, 0, 3] *= 1.1

    metrics, reason = judge(slightly_wrong_head, batch=64, kv_length=65)
    assert metrics["checks"][0]["relative_error"] < 5e-3
    assert "worst row of out" in reason


def on(distribution, kernel, **changes):
    """Reason of a kernel on one distribution alone; None if it passed."""
    case = dataclasses.replace(small_case(**changes), settings={"seeds": [0], "distributions": [distribution]})
    return check_case(case, CpuBackend(kernel))[1]


def multiplies_padding_by_zero(workload, inputs, outputs):
    """Right scores, with weights of 0 past the end, where values may be NaN."""
    right(workload, inputs, outputs)
    for request, length in enumerate(inputs.kv_lengths.tolist()):
        if length % 64:
            last = inputs.kv_cache[inputs.page_table[request, length // 64], length % 64 :, : workload.latent]
            outputs.out[request] += (0 * last.float()).sum(0).to(outputs.out.dtype)


def test_padding_that_reaches_the_output_through_a_weight_of_0_fails():
    assert on("ragged", multiplies_padding_by_zero) is None, "finite padding does not show it"
    assert "are NaN" in on("nan_padding", multiplies_padding_by_zero)


def reads_every_table_entry(workload, inputs, outputs):
    inputs.kv_cache[inputs.page_table.long()]
    right(workload, inputs, outputs)


def test_a_table_entry_past_the_pages_of_a_request_must_not_be_followed():
    assert on("ragged", reads_every_table_entry) is None
    assert "out of bounds" in on("bad_table", reads_every_table_entry)


def infinite_lse(value):
    def kernel(workload, inputs, outputs):
        right(workload, inputs, outputs)
        outputs.lse[outputs.lse.isinf()] = value

    return kernel


@pytest.mark.parametrize("value", [-math.inf, math.nan, 0.0, 3e38])
def test_a_row_without_keys_has_an_lse_of_plus_infinity_and_no_other(value):
    assert on("empty_requests", infinite_lse(math.inf)) is None
    assert "lse" in on("empty_requests", infinite_lse(value))
    assert "lse" in on("empty_requests", infinite_lse(value), batch=1), "where every request is empty, too"


def test_an_lse_of_infinity_fails_where_a_number_is_expected():
    def kernel(workload, inputs, outputs):
        right(workload, inputs, outputs)
        outputs.lse[-1, 0, 0] = math.inf

    assert "error of lse is inf" in on("randn", kernel)


def test_the_output_of_a_row_without_keys_is_zero():
    def kernel(workload, inputs, outputs):
        right(workload, inputs, outputs)
        outputs.out[outputs.lse.isinf()] = 1e-2

    assert "out" in on("empty_requests", kernel)


def neighbour(tensor, offset):
    """The element `offset` places from the start of a tensor, inside or outside it."""
    return torch.as_strided(tensor, (1,), (1,), tensor.storage_offset() + offset)


@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("name", ["out", "lse"])
def test_a_write_outside_an_output_fails(name, where):
    def overrun(workload, inputs, outputs):
        right(workload, inputs, outputs)
        tensor = getattr(outputs, name)
        neighbour(tensor, -1 if where == "before" else tensor.numel()).fill_(1.0)

    _, reason = judge(overrun)
    assert f"{where} the output {name} were overwritten" in reason


def test_a_write_before_an_input_fails():
    def overrun(workload, inputs, outputs):
        right(workload, inputs, outputs)
        neighbour(inputs.kv_cache, -1).fill_(0.0)

    _, reason = judge(overrun)
    assert "before the input kv_cache were overwritten" in reason


def test_a_changed_input_fails():
    def scribbles(workload, inputs, outputs):
        right(workload, inputs, outputs)
        inputs.q[0, 0, 0, 0] += 1

    _, reason = judge(scribbles)
    assert "the input q was changed" in reason


def test_a_stale_result_fails():
    """Computes once and then replays what it has, as a graph that captured nothing does."""
    kept = []

    def stale(workload, inputs, outputs):
        if not kept:
            right(workload, inputs, outputs)
            kept.append((outputs.out.clone(), outputs.lse.clone()))
        outputs.out.copy_(kept[0][0])
        outputs.lse.copy_(kept[0][1])

    case = dataclasses.replace(small_case(), settings={"seeds": [0, 1], "distributions": ["randn"]})
    metrics, _ = check_case(case, CpuBackend(stale))
    assert [c["passed"] for c in metrics["checks"][:2]] == [True, False]


def test_run_to_run_differences_are_reported():
    calls = []

    def wavering(workload, inputs, outputs):
        right(workload, inputs, outputs)
        calls.append(1)
        outputs.out[0, 0, 0, 0] *= 1 + len(calls) / 64

    metrics, _ = judge(wavering)
    assert metrics["checks"][0]["deterministic"] is False and metrics["deterministic"] is False


def test_an_exception_ends_the_case_with_its_words():
    def crash(workload, inputs, outputs):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    metrics, reason = judge(crash)
    assert reason.endswith("RuntimeError: CUDA error: an illegal memory access was encountered")
    assert len(metrics["checks"]) == 1


def test_the_limit_follows_pytorchs_own_error():
    """Twice its error, or the tolerance where it happens to be nearer."""
    true = torch.ones(4, 8)
    for same, limit in ((true * 1.01, 0.02), (true, 0.005)):
        error = checker.compare_field(true * 1.015, true, same, tolerance=0.005)
        assert error.limit == pytest.approx(limit, rel=1e-3)
        assert error.passed == (limit > 0.015)


def test_infinity_and_nan_are_no_numbers_in_a_record():
    error = checker.compare_field(torch.full((2, 2), torch.inf), torch.ones(2, 2), torch.ones(2, 2), 0.1)
    assert not error.passed and error.as_dict()["relative_error"] is None


def test_guarded_tensors_are_aligned_and_equal():
    inputs = mla.make_inputs(mla.Workload(**SMALL), 0)
    guarded = checker.Guarded(inputs)
    guarded.check_same(inputs, "input")
    for _, tensor in checker.tensors(guarded.values):
        assert tensor.data_ptr() % 16 == 0 and tensor.is_contiguous()


def test_guarded_refuses_another_shape():
    guarded = checker.Guarded(mla.make_inputs(mla.Workload(**SMALL), 0))
    with pytest.raises(ValueError, match="bound as"):
        guarded.assign(mla.make_inputs(mla.Workload(**{**SMALL, "batch": 4}), 0))
