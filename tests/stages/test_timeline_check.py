"""A timeline that contradicts the timing record is refused unless the reason is known."""

import pytest

from cutesnake.model.records.nsys import Launched
from cutesnake.model.records.timing import Timing, TimingMetrics
from cutesnake.stages.profile.timeline_check import busy_us, check_timeline, deviation_percent, span_us
from partial_records import filled

# cute_sm90 on an H200, batch 32, kv length 4096.
TIMES = {"cold_us": 68.576, "hot_us": 68.777, "second_source_us": 71.892, "burst_us": 62.8}


def timing(**times):
    return filled(Timing, {"status": "ok", "metrics": filled(TimingMetrics, times or TIMES)})


def timeline(*calls):
    """Kernels of calls, each a list of (start, duration), and their number per call."""
    kernels = [
        filled(Launched, {"call": number, "start_us": start, "duration_us": duration})
        for number, call in enumerate(calls)
        for start, duration in call
    ]
    return kernels, len(kernels) / len(calls)


def test_lone_calls_of_the_time_that_was_measured_agree():
    result = check_timeline(*timeline([(14.9, 70.5)], [(228.5, 70.1)], [(400.0, 70.3)]), timing())
    assert (result.made, result.agrees, result.reason) == (True, True, None)
    assert result.span_us == pytest.approx(70.3) and result.difference_percent == 0.0


def test_a_wait_that_is_counted_as_work_is_refused():
    # The recorded calls in a row. Each but the first waits 51 us on the GPU for the one before.
    result = check_timeline(*timeline([(14.9, 70.5)], [(28.5, 120.3)], [(85.5, 120.4)]), timing())
    assert result.agrees is False and result.difference_percent == pytest.approx(67.33, abs=0.01)
    assert result.reason == (
        "the timeline shows a call of 120.3 us (120.3 us of them busy), where timing measured 62.8 to 71.9 us"
    )


def test_a_timeline_that_lacks_work_is_refused():
    assert check_timeline(*timeline([(0.0, 40.0)]), timing()).agrees is False


@pytest.mark.parametrize("duration, agrees", [(71.9 * 1.09, True), (71.9 * 1.11, False)])
def test_ten_per_cent_outside_of_the_times_is_too_much(duration, agrees):
    assert check_timeline(*timeline([(0.0, duration)]), timing()).agrees is agrees


def test_waiting_for_the_host_explains_a_longer_call():
    """PyTorch: fifteen short kernels, which the host launches more slowly than the GPU runs them."""
    launches = [(20.0 * number, 3.0) for number in range(15)]
    result = check_timeline(
        *timeline(launches), timing(cold_us=50.8, hot_us=42.1, second_source_us=42.0, burst_us=38.9)
    )
    assert result.agrees is True and result.difference_percent > 400
    assert "for 238.0 us of a single call the GPU waited for the host's next launch" in result.reason


def test_launches_explain_a_difference_in_a_short_call_only():
    short = check_timeline(*timeline([(0.0, 2.1)]), timing(cold_us=4.8, hot_us=3.2, second_source_us=3.3, burst_us=3.2))
    assert short.agrees is True and "with what lies around a launch" in short.reason
    assert check_timeline(*timeline([(0.0, 50.0)]), timing()).agrees is False


def test_kernels_that_overlap_are_busy_once():
    call = timeline([(0.0, 10.0), (6.0, 8.0), (20.0, 1.0)])[0]
    assert busy_us(call) == pytest.approx(15.0) and span_us(call) == pytest.approx(21.0)


@pytest.mark.parametrize(
    "record, message",
    [
        (None, "not compared with a timing record: timing is not part of this run"),
        (filled(Timing, {"status": "failed", "reason": "impossible: 9999 TFLOP/s"}), "impossible: 9999 TFLOP/s"),
    ],
)
def test_a_check_that_was_not_made_says_so(record, message):
    result = check_timeline(*timeline([(0.0, 500.0)]), record)
    assert (result.made, result.agrees) == (False, None) and message in result.reason


@pytest.mark.parametrize("value, percent", [(9.0, -10.0), (10.0, 0.0), (15.0, 0.0), (20.0, 0.0), (25.0, 25.0)])
def test_distance_is_from_the_nearer_end(value, percent):
    assert deviation_percent(value, 10.0, 20.0) == pytest.approx(percent)
