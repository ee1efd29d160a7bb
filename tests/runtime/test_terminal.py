"""What a run shows on the terminal, from Snakemake's events and from whole runs."""

import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import snakemake_logger_plugin_cutesnake as plugin
from cutesnake.runtime import terminal
from cutesnake.runtime.job import output_to
from cutesnake.runtime.terminal import Terminal
from project import append, snakemake

STATS = {"compile": 14, "simulated": 31, "report": 1, "total": 46}
BUILD = {"operator": "mla_decode", "kernel": "cutile", "target": "sm_100a", "variant": "v1"}
PAGE = "results/mla_report.html"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


class Run:
    """Feeds events to a terminal, by a clock of its own."""

    def __init__(self, stream: io.StringIO, **options: object) -> None:
        self.now = 0.0
        self.stream = stream
        self.terminal = Terminal(stream, clock=lambda: self.now, **options)
        self.jobs = 0

    def event(self, event: str | None, text: str = "", level: int = logging.INFO, **fields: object) -> None:
        self.terminal.take(event, level, text, fields)

    def begin(self, stats: dict[str, int] = STATS) -> None:
        self.event("WORKFLOW_STARTED", "Workflow has started!")
        self.event("RESOURCES_INFO", cores=1)
        self.event("RUN_INFO", "Job stats:\nmany\n", stats=stats)

    def start(self, rule: str, wildcards: dict[str, str] | None = None, output: tuple[str, ...] = ()) -> int:
        self.jobs += 1
        self.event("JOB_INFO", jobid=self.jobs, rule_name=rule, wildcards=wildcards or {}, output=output)
        return self.jobs

    def job(self, rule: str, seconds: float, **more: object) -> None:
        number = self.start(rule, **more)
        self.pass_time(seconds)
        self.event("JOB_FINISHED", job_id=number)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + 0.5, until)
            self.terminal.tick()

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    def end(self) -> list[str]:
        """The lines that closing adds."""
        before = len(self.lines)
        self.terminal.close()
        return self.lines[before:]


@pytest.fixture
def run(tmp_path, monkeypatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal, "report_page", PAGE)
    monkeypatch.setattr(terminal, "TICK_SECONDS", 1e6)  # the tests tick
    (tmp_path / ".snakemake").mkdir()
    one = Run(io.StringIO())
    yield one
    one.terminal.close()


def test_the_live_line_has_time_stages_and_what_runs_now(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    live = Run(Screen())
    live.begin({"compile": 14, "total": 14})
    for _ in range(9):
        live.job("compile", 7)
    live.start("compile", BUILD)
    live.pass_time(7)
    last = live.stream.getvalue().rpartition("\r\x1b[2K")[2]
    assert last == "[1:10, about 0:29 left] build 9/14 · now: cutile sm_100a"
    live.terminal.close()
    assert "\r\x1b[2K" not in live.stream.getvalue().rpartition("1:10. Time by stage")[2]


def test_the_live_line_fits_the_terminal(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    live = Run(Screen())
    live.begin()
    live.start("compile", BUILD)
    live.pass_time(100)
    drawn = live.stream.getvalue().split("\r\x1b[2K")[1:]
    assert drawn and all(len(text) < 30 for text in drawn)
    live.terminal.close()


@pytest.mark.parametrize("seconds", [1.3, 30.0], ids=["ten minutes", "three hours"])
def test_a_file_gets_few_lines(run, seconds) -> None:
    run.begin({"compile": 424, "report": 1, "total": 425})
    for _ in range(424):
        run.job("compile", seconds, wildcards=BUILD)
    run.job("report", 20, output=(PAGE,))
    run.end()
    assert 10 < len(run.lines) < (30 if seconds < 2 else 60)
    assert max(map(len, run.lines)) < 200


def test_time_left_is_estimated_from_earlier_runs(run) -> None:
    Path(terminal.SECONDS_FILE).write_text('{"compile": 2.0, "report": 60}')
    run.begin({"compile": 10, "report": 1, "total": 11})
    run.start("compile", BUILD)
    run.pass_time(10.5)
    assert re.match(r"\[0:10, about 1:18 left\] build 0/10", run.lines[-1])


def test_without_earlier_runs_nothing_is_estimated_before_a_job_has_ended(run) -> None:
    run.begin()
    run.start("compile", BUILD)
    run.pass_time(11)
    assert run.lines[-1].startswith("[0:10] build 0/14")


@pytest.mark.parametrize("text", ["", "[]", '{"compile": "x"}', "\xff"])
def test_a_damaged_file_of_seconds_counts_for_nothing(run, text) -> None:
    Path(terminal.SECONDS_FILE).write_text(text, encoding="latin-1")
    run.begin()
    assert run.end()


def test_seconds_are_kept_for_later_runs(run) -> None:
    run.begin({"compile": 2, "total": 2})
    run.job("compile", 2, wildcards=BUILD)
    run.job("compile", 4, wildcards=BUILD)
    run.end()
    assert json.loads(Path(terminal.SECONDS_FILE).read_text()) == {"compile": 3.0}


def test_the_end_has_report_verdict_times_and_what_is_next(run) -> None:
    run.begin({"compile": 1, "report": 1, "total": 2})
    run.job("compile", 70, wildcards=BUILD)
    run.job("report", 2, output=(PAGE,))
    run.event(None, "CuTe DSL is 1.03 times as fast", end="verdict")
    report, verdict, times, after = run.end()
    assert report == f"Report: {PAGE}" and verdict == "CuTe DSL is 1.03 times as fast"
    assert times == "2 of 2 jobs in 1:12. Time by stage (jobs): build 1:10 (1), page 0:02 (1)"
    assert after.startswith("Next: ")


def test_without_a_page_no_verdict_is_given(run) -> None:
    run.begin({"compile": 1, "total": 1})
    run.job("compile", 1, wildcards=BUILD)
    run.event(None, "CuTe DSL is 1.03 times as fast", end="verdict")
    assert not any("1.03" in line for line in run.end())


def test_a_failed_job_is_one_line_with_its_reason_and_log(run) -> None:
    Path("job.log").write_text("much before\n" + "it broke " * 1000 + "\n\n")
    run.begin()
    number = run.start("compile", BUILD)
    run.event("ERROR", "CalledProcessError in file x, line 3:\nCommand python returned 1.", logging.ERROR)
    run.event("JOB_ERROR", "Error", logging.ERROR, jobid=number, rule_name="compile", log=["job.log"], output=["a"])
    run.event(None, "Exiting because a job execution failed. Look below", logging.ERROR)
    run.event("ERROR", "WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR)
    (failed,) = [line for line in run.end() if "Failed" in line]
    assert failed.startswith("Failed: build mla_decode/cutile/sm_100a/v1: it broke") and failed.endswith("job.log")
    assert len(failed) < 250 and not any("Error:" in line for line in run.lines)


def test_what_a_gate_says_is_shown_whole_whether_it_passes_or_fails(run) -> None:
    lines = ["gate: old → new: 2 of 9 pairs of builds are worse than allowed", "  one: spill bytes 0 → 8", "  another"]
    Path("gate.log").write_text("\n".join(lines) + "\n")
    run.begin({"gate": 2, "total": 2})
    for number, event in enumerate(("JOB_FINISHED", "JOB_ERROR"), 1):
        run.event("JOB_INFO", jobid=number, rule_name="gate", wildcards={}, output=[], log=["gate.log"])
        run.event(event, "", jobid=number, job_id=number, rule_name="gate", log=["gate.log"], output=[])
    end = run.end()
    assert end[:3] == lines and end[3:6] == [f"Failed: {lines[0]}", *lines[1:]]


def test_a_job_that_is_tried_again_did_not_fail(run) -> None:
    run.begin({"compile": 1, "total": 1})
    number = run.start("compile", BUILD)
    run.event("JOB_ERROR", "Error", logging.ERROR, jobid=number, rule_name="compile", log=[], output=[])
    run.event("JOB_INFO", jobid=number, rule_name="compile", wildcards=BUILD, output=[])
    run.event("JOB_FINISHED", job_id=number)
    assert not any("Failed" in line for line in run.end())


def test_what_is_finished_of_a_group_that_failed_did_not_fail(run) -> None:
    Path("made").touch()
    run.begin({"compile": 2, "total": 2})
    for output in ("made", "missing"):
        number = run.start("compile", {**BUILD, "variant": output})
        fields = {"jobid": number, "rule_name": "compile", "log": [], "output": [output], "indent": True}
        run.event("JOB_ERROR", "Error", logging.ERROR, **fields)
    (failed,) = [line for line in run.end() if "Failed" in line]
    assert "missing" in failed


def test_however_much_failed_the_end_has_ten_lines(run) -> None:
    run.begin({"compile": 100, "report": 1, "total": 101})
    run.job("report", 1, output=(PAGE,))
    for _ in range(100):
        number = run.start("compile", BUILD)
        run.event("JOB_ERROR", "Error", logging.ERROR, jobid=number, rule_name="compile", log=["a"], output=[])
    run.event(None, "the verdict", end="verdict")
    for number in range(20):
        run.event(None, f"Failed: cell {number}", logging.WARNING, end="failed")
    end = run.end()
    assert len(end) <= 10 and any("98 more jobs" in line for line in end)


def test_an_error_that_is_no_jobs_is_shown_at_once(run) -> None:
    run.begin()
    text = 'MissingOutputException in rule page in file "/x/report.smk", line 51:\nJob 3 completed\nbut a is missing'
    run.event("ERROR", text, logging.ERROR)
    assert run.lines[-1].startswith("Error: Job 3 completed but a is missing")
    assert "report.smk:51" in run.lines[-1]


def test_ctrl_c_is_one_line_and_no_failure(run) -> None:
    run.begin()
    number = run.start("compile", BUILD)
    run.event(None, "Terminating processes on user request, this might take some time.")
    run.event("JOB_ERROR", "Error", logging.ERROR, jobid=number, rule_name="compile", log=[], output=[])
    run.event("ERROR", "WorkflowError:\nAt least one job did not complete successfully.", logging.ERROR)
    message = [*run.lines, *run.end()]
    assert sum("Interrupted" in line for line in message) == 1 and not any("Error" in line for line in message)
    assert any(line.startswith("Next: run again") for line in message)


def test_chatter_is_left_out_and_warnings_are_not(run) -> None:
    run.event(None, "Assuming unrestricted shared filesystem usage.")
    run.event(None, "1 stale, made again with what follows: x changed")
    run.begin()
    run.event(None, "Select jobs to execute...")
    run.event("SHELLCMD", "None", shellcmd=None)
    run.event(None, "look\nout " + "!" * 5000, logging.WARNING)
    first, plan, warning = run.lines
    assert first.startswith("1 stale") and plan.startswith("46 jobs: build 14, check 31")
    assert warning.startswith("look out !!!") and len(warning) <= terminal.LINE_LENGTH


def test_nothing_to_do_is_one_line_with_the_report(run) -> None:
    Path(PAGE).parent.mkdir()
    Path(PAGE).touch()
    run.event("WORKFLOW_STARTED")
    run.event(None, "Nothing to be done (all requested files are present and up to date).")
    run.terminal.close()
    (line,) = run.lines
    assert line.startswith("Nothing to be done") and PAGE in line


def test_a_dry_run_is_one_table(run) -> None:
    dry = Run(io.StringIO(), dry_run=True)
    dry.begin()
    for _ in range(14):
        dry.start("compile", BUILD)
    dry.event("RUN_INFO", "Job stats:\nmany\n", stats=STATS)
    dry.event(None, "This was a dry-run (flag -n).")
    dry.terminal.close()
    assert dry.stream.getvalue() == "Job stats:\nmany\n\n"


def test_quiet_leaves_failures_and_errors(run) -> None:
    quiet = Run(io.StringIO(), quiet={"all"})
    quiet.begin()
    number = quiet.start("compile", BUILD)
    quiet.pass_time(100)
    quiet.event("JOB_ERROR", "Error", logging.ERROR, jobid=number, rule_name="compile", log=["a"], output=[])
    quiet.terminal.close()
    assert [line.split(":")[0] for line in quiet.lines] == ["Failed"]


def test_a_quiet_run_does_not_ask_to_run_again() -> None:
    """With `--quiet`, Snakemake reports no finished job."""
    quiet = Run(io.StringIO(), quiet={"progress", "rules"})
    quiet.begin()
    quiet.start("compile", BUILD)
    quiet.pass_time(100)
    quiet.terminal.close()
    assert not any(line.startswith("Next: run again") or line.startswith("0 of") for line in quiet.lines)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('WorkflowError in file "/a/b", line 8:\nthe disk is full\n  File "/a/b", line 8', "the disk is full"),
        ("MissingRuleException:\nNo rule to produce x", "No rule to produce x"),
        ("Error: Directory cannot be locked.\nPlease wait.", "Directory cannot be locked. Please wait."),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'a'", "KeyError: 'a'"),
        ("ValueError.", "ValueError."),
    ],
)  # fmt: skip
def test_an_error_is_one_line(text, line) -> None:
    assert terminal.error_line(text) == line


@pytest.mark.parametrize(
    ("arguments", "own"),
    [("--cores 1", False), ("-n", False), ("--verbose", True), ("-np", True), ("-p", True), ("-c1 --debug-dag", True)],
)
def test_options_for_snakemakes_own_output(arguments, own) -> None:
    hook = sys.excepthook
    try:
        assert plugin.chosen(arguments.split()) == (None if own else ["cutesnake"])
    finally:
        sys.excepthook = hook


def test_a_jobs_output_goes_to_its_log(tmp_path, capsys) -> None:
    log = tmp_path / "log/job.log"
    with output_to(str(log)) as (out, errors):
        os.write(out, b"one\n")
        os.write(errors, b"two\n")
    assert log.read_text() == "one\ntwo\n"
    with output_to(str(log)) as (out, _):
        os.write(out, b"another run\n")
    assert log.read_text() == "another run\n"
    with output_to(str(log)):
        pass
    assert log.read_text() == "another run\n"
    with output_to(str(log)) as (out, _):
        log.write_text("the stage's own, of this run\n")
        os.write(out, b"and its end\n")
    assert log.read_text() == "the stage's own, of this run\nand its end\n"
    with output_to(str(tmp_path)) as (out, _):  # a folder
        os.write(out, b"cannot be kept\n")
    assert "cannot be kept" in capsys.readouterr().err


@pytest.mark.slow
def test_a_whole_run_is_short_and_names_the_report(fresh) -> None:
    done = snakemake(fresh)
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0 and len(lines) < 20, lines
    assert f"Report: {PAGE}" in lines and max(map(len, lines)) < 300
    assert (
        "ptxsim" not in done.stderr
        and "right under every schedule" in next((fresh / "results/log/simulated").rglob("*.log")).read_text()
    )
    again = snakemake(fresh).stderr.splitlines()
    assert len(again) <= 2 and again[-1].startswith("Nothing to be done") and PAGE in again[-1]
    assert "Select jobs to execute" in snakemake(fresh, "--verbose", "--forcerun", "plan").stderr


@pytest.mark.slow
def test_a_kernel_that_fails_is_named_with_reason_and_log(fresh) -> None:
    kernel = fresh / "kernels/elementwise_add/cutile/__init__.py"
    text = kernel.read_text()
    body = re.search(r"def compile\([^)]*\)[^:]*:\n", text)
    kernel.write_text(text.replace(body[0], f'{body[0]}    raise ValueError("no such tile")\n'))
    done = snakemake(fresh)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "no such tile" in line]
    log = fresh / line.rpartition(" · ")[2]
    assert "elementwise_add/cutile" in line and "no such tile" in log.read_text()
    assert "Failed: 1 of 2 builds" in done.stderr


@pytest.mark.slow
def test_a_job_that_fails_is_named_with_reason_and_log(fresh) -> None:
    append(fresh / "workflow/scripts/job.py", '\nif name == "plan":\n    raise RuntimeError("out of plans")\n')
    done = snakemake(fresh)
    (line,) = [line for line in done.stderr.splitlines() if "out of plans" in line]
    assert done.returncode != 0 and line.startswith("Failed: plan elementwise_add: RuntimeError: out of plans")
    assert "Traceback" in (fresh / line.rpartition(" · ")[2]).read_text() and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) < 20
