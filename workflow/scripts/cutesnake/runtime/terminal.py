"""Show a run on the terminal: one live line, then a short summary.

Events come from Snakemake's logger through `snakemake_logger_plugin_cutesnake`. A terminal has one line that is
rewritten. A file or a pipe gets a line after 10 s, and further ones at growing distances. At most ten lines end a run.
"""

import contextlib
import json
import logging
import os
import re
import shlex
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

STAGES = {  # rule -> stage, in the order in which stages are shown
    **{"fetch": "fetch", "compile": "build", "simulated": "check", "correctness": "check", "batch": "measure"},
    **{"timing": "time", "nsys": "profile", "ncu": "profile", "predict": "predict", "anatomy": "anatomy"},
    **{"compare": "compare", "change": "compare", "overview": "page", "page": "page", "report": "page"},
    **{"operations": "page", "learn": "page", "learn_paths": "page"},
}
OTHER = "other"
JUDGES = {"gate", "unchanged"}  # rules whose log is what the run was asked for: shown whole
SECONDS_FILE = ".snakemake/cutesnake-seconds.json"  # seconds per job of each rule, from earlier runs
PRIOR_JOBS = 2  # the weight of earlier runs' seconds, in jobs of this run
TICK_SECONDS = 0.5
FIRST_LINE_SECONDS = 10.0  # plain lines: when the first one is due, and the least distance
MOST_SECONDS = 300.0  # the greatest distance
GROWTH = 0.3  # of the time that has passed, in between
REASON_LENGTH = 160
LINE_LENGTH = 500  # of warnings and errors
FAILED_LINES = 5  # of the end
LONGEST_COMMAND = 400  # characters of a command that is printed again
NOTHING = "Nothing to be done"
BEFORE_JOBS = ("Assuming ", "Building DAG", "Config file ")  # what Snakemake says before every run
FINAL = ("At least one job did not complete", "Exiting because a job execution failed")
HEADLINE = re.compile(r"(?P<name>\w+)( in .*)?[:.]")
LOCATION = re.compile(r'in (rule \w+ in )?file "(?P<file>[^"]+)", line (?P<line>\d+)')

report_page: str | None = None  # the Snakefile sets it


@dataclass
class Job:
    """A job that was started."""

    rule: str
    parts: Mapping[str, str]
    outputs: list[str]
    logs: list[str]
    started: float

    @property
    def stage(self) -> str:
        """Return the stage's name."""
        return STAGES.get(self.rule, self.rule)

    @property
    def short(self) -> str:
        """Name the job in a word or two."""
        named = [self.parts[key] for key in ("kernel", "target") if key in self.parts]
        return " ".join(named) or " ".join((self.stage, *filter(None, [self.parts.get("operator")])))

    @property
    def whole(self) -> str:
        """Name the job in full."""
        named = "/".join(self.parts.values()) or (self.rule if self.rule != self.stage else "")
        return " ".join(filter(None, (self.stage, named)))


class Progress:
    """Count jobs, and estimate the time that is left."""

    def __init__(self, known: Mapping[str, float], now: float) -> None:
        self.known = known
        self.began = now
        self.cores = 1
        self.total: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.spent: dict[str, float] = {}
        self.running: dict[int, Job] = {}
        self.failed: dict[int, tuple[Job, str]] = {}

    def start(self, number: int, job: Job) -> None:
        """Note a job's start; one that failed before is tried again."""
        self.failed.pop(number, None)
        self.running[number] = job

    def finish(self, number: int, now: float) -> Job | None:
        """Note a job's end."""
        job = self.running.pop(number, None)
        if job is not None:
            self.done[job.rule] += 1
            self.spent[job.rule] = self.spent.get(job.rule, 0.0) + now - job.started
        return job

    def fail(self, number: int, job: Job, reason: str) -> None:
        """Note a job's failure."""
        self.running.pop(number, None)
        self.failed[number] = job, reason

    def seconds(self, rule: str) -> float | None:
        """Estimate a job's seconds from earlier runs, this one, or other jobs."""
        weight = PRIOR_JOBS if rule in self.known else 0
        if jobs := weight + self.done[rule]:
            return (weight * self.known.get(rule, 0.0) + self.spent.get(rule, 0.0)) / jobs
        return sum(self.spent.values()) / done if (done := self.done.total()) else None

    def left(self, now: float) -> float | None:
        """Estimate the seconds until all jobs are done; None if nothing is known."""
        work = longest = 0.0
        running = Counter(job.rule for job in self.running.values())
        missing = Counter(job.rule for job, _ in self.failed.values())
        for rule, total in self.total.items():
            waiting = total - self.done[rule] - running[rule] - missing[rule]
            if waiting > 0 or running[rule]:
                each = self.seconds(rule)
                if each is None:
                    return None
                work += max(waiting, 0) * each
        for job in self.running.values():
            each = self.seconds(job.rule) or 0.0
            rest = max(each - (now - job.started), each / 10)
            work, longest = work + rest, max(longest, rest)
        return max(work / self._at_once(now), longest)

    def _at_once(self, now: float) -> float:
        """Return how many jobs run at once: as seen, at first the number of cores."""
        passed = now - self.began
        if passed < FIRST_LINE_SECONDS:
            return self.cores
        busy = sum(self.spent.values()) + sum(now - job.started for job in self.running.values())
        return max(1.0, busy / passed)

    def line(self, now: float) -> str:
        """Return one line: time, stages under way, what runs now."""
        left = self.left(now)
        clock = clock_time(now - self.began) + (f", about {clock_time(left)} left" if left is not None else "")
        total, done, active = Counter[str](), Counter[str](), {job.stage for job in self.running.values()}
        for rule, count in self.total.items():
            stage = STAGES.get(rule, OTHER)
            total[stage] += count
            done[stage] += self.done[rule]
        under_way = [
            f"{stage} {done[stage]}/{total[stage]}"
            for stage in dict.fromkeys(STAGES.values())
            if done[stage] < total[stage] and (done[stage] or stage in active)
        ]
        message = under_way or [f"{self.done.total()}/{self.total.total()} jobs"]
        if self.failed:
            message.append(f"failed {len(self.failed)}")
        if names := [job.short for job in self.running.values()][-2:]:
            message.append(f"now: {', '.join(names)}")
        return f"[{clock}] {' · '.join(message)}"

    def times(self) -> str:
        """Return jobs and seconds per stage, the longest first."""
        seconds, jobs = Counter[str](), Counter[str]()
        for rule, spent in self.spent.items():
            stage = STAGES.get(rule, OTHER)
            seconds[stage] += spent  # type: ignore[assignment]
            jobs[stage] += self.done[rule]
        return ", ".join(f"{stage} {clock_time(spent)} ({jobs[stage]})" for stage, spent in seconds.most_common())

    def counts(self) -> str:
        """Return the number of jobs per stage."""
        total: Counter[str] = Counter()
        for rule, count in self.total.items():
            total[STAGES.get(rule, OTHER)] += count
        return ", ".join(
            f"{stage} {total[stage]}" for stage in dict.fromkeys((*STAGES.values(), OTHER)) if total[stage]
        )

    def remembered(self) -> dict[str, float]:
        """Return seconds per job of each rule, for later runs."""
        made = {rule: self.seconds(rule) for rule in self.spent}
        return {**self.known, **{rule: round(each, 3) for rule, each in made.items() if each is not None}}


class Terminal:
    """Write what a run says."""

    def __init__(
        self,
        stream: TextIO,
        dry_run: bool = False,
        quiet: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream
        with contextlib.suppress(AttributeError, ValueError):  # an encoding without `…` loses a character, not a line
            stream.reconfigure(errors="replace")  # type: ignore[attr-defined]
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._dry_run = dry_run
        self._silent = "all" in quiet and not dry_run
        self._quiet = self._silent or "progress" in quiet
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._progress: Progress | None = None
        self._workflow_started = self._interrupted = self._drawn = self._table = False
        self._due = FIRST_LINE_SECONDS
        self._cores = 1
        self._judged: list[str] = []
        self._end: list[tuple[str, str]] = []  # what the Snakefile says at the end: kind and line
        self._page: str | None = None
        self._last_error = ""
        self._errors = 0
        self._file = Path(SECONDS_FILE)

    def take(self, event: str | None, level: int, text: str, fields: Mapping[str, Any]) -> None:
        """Take a record of Snakemake's logger: its event's name, level, text and fields."""
        with self._lock:
            if event is None:
                self._message(level, text, fields)
            elif event == "WORKFLOW_STARTED":
                self._workflow_started = True
            elif event == "RUN_INFO":
                self._plan(text, fields["stats"])
            elif event == "RESOURCES_INFO":
                self._cores = fields.get("cores") or self._cores
            elif event == "ERROR":
                self._error(text)
            elif self._progress is not None and not self._dry_run:
                self._job_event(self._progress, event, fields)

    def _job_event(self, progress: Progress, event: str, fields: Mapping[str, Any]) -> None:
        now = self._clock()
        if event == "JOB_INFO":
            progress.start(fields["jobid"], _job(fields, now))
        elif event == "JOB_FINISHED":
            job = progress.finish(fields["job_id"], now)
            if job and job.rule in JUDGES:
                self._judged += _lines(job.logs)
            pages = [path for path in job.outputs if path.endswith(".html")] if job else []
            if pages and self._page != report_page:
                self._page = report_page if report_page in pages else pages[-1]
        elif event == "JOB_ERROR" and not self._interrupted:
            number = fields["jobid"]
            outputs = list(fields.get("output") or ())
            if fields.get("indent") and outputs and all(map(os.path.exists, outputs)):
                return  # finished, in a group of which another job failed
            job = progress.running.get(number) or _job(fields, now)
            progress.fail(number, job, _reason(fields, self._last_error))

    def _plan(self, table: str, stats: Mapping[str, int]) -> None:
        """Show what would run, or begin the account of what runs."""
        if self._table:  # a dry run says it twice
            return
        self._table = True
        known = _remembered(self._file)
        progress = Progress(known, self._clock())
        progress.cores = self._cores
        progress.total = Counter({rule: count for rule, count in stats.items() if rule != "total"})
        if self._dry_run:
            self._print(table)
            if known and (left := progress.left(self._clock())):
                self._print(f"About {clock_time(left)} on one core, from the times of earlier runs.")
            return
        self._progress = progress
        self._file = self._file.absolute()
        if not self._quiet:
            self._print(f"{progress.total.total()} jobs: {progress.counts()}")
            threading.Thread(target=self._tick_until_closed, daemon=True).start()

    def _tick_until_closed(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            self.tick()

    def tick(self) -> None:
        """Write the live line again, or a plain one if it is due."""
        with self._lock:
            if self._progress is None or self._quiet or self._closed.is_set():
                return
            now = self._clock()
            passed = now - self._progress.began
            if self._live:
                self._draw(self._progress.line(now))
            elif passed >= self._due:
                self._print(self._progress.line(now))
                self._due = passed + min(max(GROWTH * passed, FIRST_LINE_SECONDS), MOST_SECONDS)

    def _message(self, level: int, text: str, fields: Mapping[str, Any]) -> None:
        """Show warnings, errors and messages before jobs; Snakemake's log has the rest."""
        if kind := fields.get("end"):
            self._end.append((kind, text))
        elif level >= logging.ERROR:
            self._error(text)
        elif level >= logging.WARNING:
            self._show(self._shortened(text))
        elif text.startswith(NOTHING):
            page = f" Report: {report_page}" if report_page and os.path.exists(report_page) else ""
            self._show(f"{NOTHING}: all requested files are up to date.{page}")
        elif "on user request" in text or text.startswith("Will exit after"):
            self._interrupted = True
            self._print("Interrupted: running jobs are ended. Finished results are kept.")
        elif level >= logging.INFO and text and not self._workflow_started and not text.startswith(BEFORE_JOBS):
            self._show(self._shortened(text))

    def _shortened(self, text: str) -> str:
        """Shorten a message to one line in a run; `--lint` and others keep all."""
        if self._workflow_started:
            return one_line(text, LINE_LENGTH)
        return "\n".join(cut(line, LINE_LENGTH) for line in text.splitlines())

    def _error(self, text: str) -> None:
        """Show an error in one line, unless the summary reports it."""
        message = error_line(text)
        if self._interrupted or any(phrases in text for phrases in FINAL):
            self._last_error = self._last_error or message
            return
        if self._progress is not None and re.search(r"CalledProcessError|SpawnedJobError", text):
            self._last_error = message  # a job's, whose own words are in its log
            return
        self._errors += 1
        whole = ""
        if "Traceback (most recent call last)" in text:
            if path := _log_of_snakemake():
                whole = f" (traceback in {path})"
            else:
                self._print(text)
                return
        self._print(f"Error: {message}{whole}")

    def close(self) -> None:
        """Write the end of a run."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
            self._erase()
            progress = self._progress
            if progress is None:
                if self._last_error and not self._errors and not self._interrupted:
                    self._print(f"Error: {self._last_error}")
                return
            for line in self._ending(progress):
                self._print(line)
            with contextlib.suppress(OSError):
                self._file.write_text(json.dumps(progress.remembered(), indent=0, sort_keys=True))

    def _ending(self, progress: Progress) -> Iterable[str]:
        failed = list(progress.failed.values())
        if not self._silent:
            if self._page:
                yield f"Report: {self._page}"
                yield from (text for kind, text in self._end if kind == "verdict")
            yield from self._judged
            yield from [text for kind, text in self._end if kind == "failed"][: FAILED_LINES - min(len(failed), 3)]
        shown = failed if len(failed) <= 3 else failed[:2]
        for job, reason in shown:
            yield f"Failed: {job.whole}: {reason.removeprefix(f'{job.whole}: ')}"
        if len(failed) > len(shown):
            yield f"Failed: {len(failed) - len(shown)} more jobs, see {_log_of_snakemake() or '.snakemake/log'}"
        if self._last_error and not (failed or self._errors or self._interrupted):
            yield f"Error: {self._last_error}"
        if self._silent:
            return
        done, total = progress.done.total(), progress.total.total()
        spent = clock_time(self._clock() - progress.began)
        if not self._quiet:
            yield f"{done} of {total} jobs in {spent}. Time by stage (jobs): {progress.times() or 'none'}"
        elif not (failed or self._errors or self._interrupted):  # Snakemake reports no finished job then
            done = total
            yield f"{total} jobs in {spent}"
        again = shlex.join(["snakemake", *sys.argv[1:]])
        if len(again) > LONGEST_COMMAND:
            again = "the same command"
        if failed or self._errors:
            yield f"Next: fix the cause and run again, finished results are kept: {again}"
        elif self._interrupted or done < total:
            yield f"Next: run again to continue: {again}"
        elif self._page:
            yield f"Next: open {self._page} in a browser"

    def _show(self, text: str) -> None:
        if not self._silent:
            self._print(text)

    def _print(self, text: str) -> None:
        self._erase()
        self._write(f"{text}\n")

    def _draw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[2K{cut(text, width)}")
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            self._write("\r\x1b[2K")
            self._drawn = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a pipe whose reader is gone, or a stream that is closed
            self._stream.write(text)
            self._stream.flush()


def _job(fields: Mapping[str, Any], now: float) -> Job:
    parts = {str(key): str(value) for key, value in dict(fields.get("wildcards") or {}).items()}
    outputs, logs = ([str(path) for path in fields.get(name) or ()] for name in ("output", "log"))
    return Job(str(fields["rule_name"]), parts, outputs, logs, now)


def _reason(fields: Mapping[str, Any], error: str) -> str:
    """Return a failed job's reason and log file, of JUDGES the whole log."""
    logs = [str(path) for path in fields.get("log") or ()]
    lines = _lines(logs)
    if lines and fields.get("rule_name") in JUDGES:
        return "\n".join(lines)
    message = (lines[-1].strip() if lines else "") or str(fields.get("rule_msg") or "") or error
    where = f" · {', '.join(logs)}" if logs else ""
    return f"{one_line(message, REASON_LENGTH) or 'no reason in its log'}{where}"


def _lines(paths: Iterable[str]) -> list[str]:
    """Return the lines of the first file that has any, each cut."""
    for path in paths:
        with contextlib.suppress(OSError):
            text = Path(path).read_text(errors="replace")
            if lines := [cut(line.rstrip(), LINE_LENGTH) for line in text.splitlines() if line.strip()]:
                return lines
    return []


def _remembered(path: Path) -> dict[str, float]:
    """Return seconds per job of each rule; none if the file is missing or damaged."""
    try:
        return {str(rule): float(seconds) for rule, seconds in json.loads(path.read_bytes()).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _log_of_snakemake() -> str | None:
    """Return Snakemake's log file of this run; a dry run has none."""
    files = [getattr(handler, "baseFilename", None) for handler in logging.getLogger("snakemake.logging").handlers]
    return next((os.path.relpath(path) for path in files if path), None)


def error_line(text: str) -> str:
    """Shorten an exception's text to its message, without classes and places."""
    lines = [line for line in text.removeprefix("Error: ").splitlines() if line.strip()]
    if not lines or "Traceback (most recent call last)" in text:
        return one_line(lines[-1] if lines else text, LINE_LENGTH)
    head, *others = lines
    if not (result := HEADLINE.fullmatch(head.strip())) or not result["name"].endswith(("Exception", "Error")):
        return one_line(" ".join(lines), LINE_LENGTH)
    kept = [line for line in others if not line.startswith('  File "')]
    if not kept:
        return one_line(head, LINE_LENGTH)
    message = one_line(" ".join(kept), LINE_LENGTH)
    place = LOCATION.search(head) if result["name"] not in ("WorkflowError", "MissingRuleException") else None
    return f"{message} ({os.path.relpath(place['file'])}:{place['line']})" if place else message


def one_line(text: str, length: int) -> str:
    """Join the lines of a text, and cut it."""
    return cut(" ".join(text.split()), length)


def cut(text: str, length: int) -> str:
    """Cut a text that is longer, with an ellipsis."""
    return text if len(text) <= length else f"{text[: max(length - 1, 0)]}…"


def clock_time(seconds: float) -> str:
    """Format seconds as minutes:seconds, or hours:minutes:seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
