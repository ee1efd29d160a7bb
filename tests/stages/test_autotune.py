"""Autotune: the fastest variant with its margin; failures stay as rows."""

from types import SimpleNamespace

import msgspec
import pytest

from cpu_backend import small_case
from cutesnake.model import record
from cutesnake.model.records.common import Case, Device
from cutesnake.stages.measure.autotune import choose, write_choice
from cutesnake.stages.measure.case import make_record

H200 = {"name": "NVIDIA H200", "compute_capability": [9, 0], "driver": "580.159.04", "uuid_hash": "0123456789ab"}


def timing(variant, cold_us=None, spread=0.5, reason=None, device=H200, **changes):
    times = {"cold_us": cold_us, "hot_us": cold_us and cold_us * 0.9, "spread_percent": spread}
    entry = make_record(small_case(**changes), None, reason, device)
    entry["case"]["variant"] = {"id": variant, "params": {"tile": variant}}
    return SimpleNamespace(
        status="failed" if reason else "ok",
        reason=reason,
        case=msgspec.convert(entry["case"], Case),
        device=msgspec.convert(device, Device),
        backend=entry["backend"],
        metrics=None if cold_us is None else SimpleNamespace(**times),
    )


def test_the_fastest_is_chosen_with_its_margin():
    entry = choose([timing("a", 12.0), timing("b", 10.0), timing("c", 11.0)])
    assert entry.metrics.chosen == "b" and entry.case.variant.params == {"tile": "b"}
    assert entry.metrics.margin_percent == pytest.approx(10.0)
    assert entry.metrics.decided
    assert [row.variant for row in entry.metrics.variants] == ["b", "c", "a"]
    record.check("autotune", entry, "choice")


def test_a_failure_is_a_row_with_its_reason():
    entry = choose([timing("a", 12.0), timing("b", reason="ended by the time limit of 60 s")])
    assert entry.metrics.chosen == "a" and entry.metrics.margin_percent is None
    assert entry.metrics.variants[1].reason == "ended by the time limit of 60 s"


def test_a_rejected_time_does_not_win():
    """An impossible row has metrics but is failed."""
    entry = choose([timing("a", 12.0), timing("b", 0.1, reason="impossible: 9000 TFLOP/s")])
    assert entry.metrics.chosen == "a"
    assert entry.metrics.variants[1].cold_us is None


def test_all_failed_is_a_failed_choice():
    entry = choose([timing("a", reason="it hangs"), timing("b", reason="it crashes")])
    assert entry.status == "failed" and "it hangs" in entry.reason
    assert entry.metrics.chosen is None and entry.case.variant is None
    record.check("autotune", entry, "choice")


def test_a_margin_within_the_noise_is_not_decided():
    entry = choose([timing("a", 10.0, spread=2.0), timing("b", 10.1)])
    assert entry.metrics.chosen == "a" and not entry.metrics.decided


@pytest.mark.parametrize(
    "other, message",
    [
        (timing("a", 1.0), "a variant twice"),
        (timing("b", 1.0, batch=5), "more than one workload"),
        (timing("b", 1.0, device={**H200, "name": "NVIDIA B200"}), "more than one device"),
    ],
)
def test_records_that_do_not_belong_together_are_refused(other, message):
    with pytest.raises(ValueError, match=message):
        choose([timing("a", 1.0), other])


def test_nothing_to_choose_from_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        choose([])


def test_damaged_timing_is_named(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("{")
    with pytest.raises(record.RecordError, match=r"t\.json"):
        write_choice([path], tmp_path / "out.json")
