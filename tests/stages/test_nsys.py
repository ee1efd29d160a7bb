"""nsys: a record from an H200's export, and messages when data lacks."""

import dataclasses
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from cpu_backend import small_case
from cutesnake.model import record
from cutesnake.stages.measure.case import make_record
from cutesnake.stages.profile import nsys, profiled
from cutesnake.stages.profile.profiled import ProfilerError

FIXTURE = Path(__file__).parents[1] / "fixtures" / "two_kernels.sql"


def database(folder, *statements):
    path = folder / "report.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(FIXTURE.read_text())
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def metrics(tmp_path):
    return nsys.read_timeline(database(tmp_path))


def test_only_the_measured_calls_count(metrics):
    assert metrics["calls"] == 6 and metrics["kernels_per_call"] == 2.0
    assert [k.call for k in metrics["kernels"]] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_kernels_are_in_order_with_their_sizes(metrics):
    split, reduce = metrics["kernels"][:2]
    assert split.name == "tilegym_mla_decoding_split_kv" and reduce.name == "tilegym_splitk_reduce"
    assert split.start_us < reduce.start_us
    assert split.stream == reduce.stream and metrics["streams"] == [split.stream]
    assert split.duration_us > 200 and split.block == [256, 1, 1] and split.registers_per_thread > 0


def test_calls_launched_while_the_card_was_busy_are_back_to_back(metrics):
    """The fixture was made before calls were waited for."""
    assert metrics["spacing"] == "back_to_back"


def test_calls_launched_on_an_idle_card_are_lone(metrics):
    first = metrics["kernels"][:2]
    later = [replace(k, call=1, start_us=k.start_us + 1e6, launch_start_us=k.launch_start_us + 1e6) for k in first]
    assert nsys._spacing(first + later) == "lone"
    early = [replace(k, launch_start_us=first[1].start_us) for k in later]
    assert nsys._spacing(first + early) == "back_to_back"


def test_gaps_and_latency(metrics):
    assert metrics["gaps_us"] == [1.472, 1.728, 1.728, 1.504, 2.72, 1.472]
    assert metrics["overlap_us"] == 0.0
    assert metrics["launch_latency_us"] == 10.645
    assert metrics["device_us"] == pytest.approx(337.792)


def test_a_record_of_it_fits_the_schema(metrics):
    case = dataclasses.replace(small_case(), stage="nsys")
    record.check("nsys", make_record(case, {**metrics, "measuring_seconds": 4.5}), "timeline")


def test_ranges_are_kept(metrics):
    assert [r["text"] for r in metrics["nvtx"]] == ["measured"] + ["call"] * 6


def test_an_overlap_is_a_negative_gap(tmp_path):
    earlier = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = start - 3000, end = end - 3000 WHERE demangledName = "
    path = database(tmp_path, f"{earlier}(SELECT id FROM StringIds WHERE value = 'tilegym_splitk_reduce')")
    metrics = nsys.read_timeline(path)
    assert metrics["gaps_us"][0] == pytest.approx(1.472 - 3.0)
    assert metrics["overlap_us"] == pytest.approx(sum(-g for g in metrics["gaps_us"] if g < 0))


@pytest.mark.parametrize(
    "statement, message",
    [
        ("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL", "saw no kernel"),
        ("DELETE FROM NVTX_EVENTS", "no NVTX range 'measured'"),
        ("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", "no kernel inside the measured range"),
    ],
)
def test_what_lacks_is_named(tmp_path, statement, message):
    with pytest.raises(ProfilerError, match=message):
        nsys.read_timeline(database(tmp_path, statement))


def test_profiled_processes_see_nothing_of_the_users_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/lib/x")
    environment = profiled.minimal_environment(str(tmp_path))
    assert "secret" not in environment.values() and environment["LD_LIBRARY_PATH"] == "/lib/x"
    assert environment["HOME"] == environment["TMPDIR"] == str(tmp_path)


def test_a_profiler_that_is_not_there_is_named(monkeypatch, machine):
    monkeypatch.setattr("cutesnake.planning.machine.probe", lambda: machine("none"))
    with pytest.raises(ProfilerError, match="nsys is not installed here"):
        nsys.find_tool("nsys")


def test_last_words_leave_progress_out():
    output = "[1/1] [0%   ] r.nsys-rep\r[1/1] [100%] r\nProcessing 3 events: [=]\nImportError: libdw.so.1\n\n"
    assert profiled.last_output(output) == "ImportError: libdw.so.1"


def profiler(folder, body):
    """A stand-in for a profiler's executable."""
    path = folder / "profiler"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_profiler_that_fails_gives_its_own_words(tmp_path):
    with pytest.raises(ProfilerError, match="profiler ended with code 7: something is wrong"):
        profiled.run_under([profiler(tmp_path, "echo something is wrong; exit 7")], small_case(), 1, "none", 5.0)


def test_a_profiler_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(profiled, "START_SECONDS", 0.3)
    with pytest.raises(ProfilerError, match="did not end: began"):
        profiled.run_under([profiler(tmp_path, "echo began; sleep 60")], small_case(), 1, "none", 0.2, alone=True)
