"""pytest plugin: with PTXSIM=1, CuTe DSL kernels of tests run in ptxsim.

Tests stay as they are: `torch.device("cuda")` is host memory, and calls of compiled functions are simulated. A finding
fails the test and names the source line.
"""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import os
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .core.finding import Finding
    from .core.launch import Launch

SWITCH = "PTXSIM"
SM_COUNT = {"sm_90a": 132, "sm_100a": 148}
MARKER = """ptxsim(schedule="random", seed=0, runs=None, checks=None, allow=()): how ptxsim runs a test's kernels; \
allow: kinds of findings that do not fail it, such as "exit"."""
COUNTED = ("launches", "findings")
SHOWN = 8  # findings of a test that are shown in full
_OFF = ("", "0", "false", "no", "off")


@dataclass
class Options:
    """How the kernels of one test are run."""

    schedule: str = "random"
    seed: int = 0
    runs: int | None = None
    checks: Sequence[str] | None = None
    allow: Sequence[str] = ()  # kinds that do not fail the test


@dataclass
class Simulation:
    """How kernels of a pytest process run, findings of the test, and totals."""

    target: str
    defaults: Options
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    options: Options = field(default_factory=Options)
    unreported: list[Finding] = field(default_factory=list)
    launches: int = 0  # of the test under way
    findings: int = 0

    def start(self) -> None:
        """Take the place of the GPU. Raises pytest.UsageError where that cannot be done."""
        if importlib.util.find_spec("cutlass") is None:
            raise pytest.UsageError(f"{SWITCH}=1 needs CuTe DSL: pip install nvidia-cutlass-dsl")
        from .host.jit import Interception
        from .host.linking import CaptureError

        os.environ.setdefault("QUACK_CACHE_ENABLED", "0")  # quack's cache holds objects, which have no PTX
        sm_count = SM_COUNT.get(self.target, SM_COUNT["sm_100a"])
        try:
            Interception(self.target, self.run, sm_count=sm_count)
        except CaptureError as error:
            raise pytest.UsageError(f"{SWITCH}=1: {error}") from None
        if importlib.util.find_spec("torch") is not None:
            from .host.torch_cuda import cuda_on_cpu

            self.stack.enter_context(cuda_on_cpu(divmod(int(re.sub(r"\D", "", self.target)), 10), sm_count))

    def run(self, launches: list[Launch]) -> None:
        """Run the launches of one call, under each schedule until something is found."""
        from .core.run import DEFAULT_CHECKS, run
        from .core.schedule import DEFAULT
        from .core.snapshot import Snapshot

        options = self.options
        checks = DEFAULT_CHECKS if options.checks is None else options.checks
        plans = DEFAULT if options.schedule == "all" else ((options.schedule, options.seed),)
        before = Snapshot(launches) if len(plans) > 1 else None
        for n, (name, seed) in enumerate(plans):
            if before is not None and n:
                before.restore()
            result = run(launches, name, seed, checks=checks, runs=options.runs)
            findings = [x for x in result.findings if x.kind not in options.allow]
            self.unreported += findings
            if findings:
                break
        self.launches += len(launches)

    def report(self) -> str:
        """Return new findings since the last report, as text."""
        findings, self.unreported = self.unreported, []
        self.findings += len(findings)
        lines = [line for finding in findings[:SHOWN] for line in finding_text(finding)]
        return "\n".join([*lines, *([f"and {len(findings) - SHOWN} more findings"] if len(findings) > SHOWN else [])])


def finding_text(finding: Finding) -> list[str]:
    """A finding in a few lines, with the text of its source line."""
    from .commandline.output import finding_lines

    lines = finding_lines(finding)
    place = re.match(r"(.+?):(\d+)", finding.source or "")
    text = linecache.getline(place[1], int(place[2])).strip() if place else ""
    return [*lines, *([f">   {text}"] if text else [])]


def _wanted(config: pytest.Config) -> bool:
    switch = os.environ.get(SWITCH)
    if switch is not None:
        return switch.lower() not in _OFF
    return bool(config.getini("ptxsim"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini keys."""
    parser.addini("ptxsim", "run CuTe kernels in ptxsim, as PTXSIM=1 does (default: false)", type="bool", default=False)
    parser.addini("ptxsim_arch", "what kernels are compiled for (default: CUTE_DSL_ARCH or sm_90a)", default="")
    parser.addini("ptxsim_schedule", "schedule of ptxsim: a name, all or search (default: random)", default="random")
    parser.addini("ptxsim_checks", "checks of ptxsim, one a word (default: ptxsim's own)", type="args", default=[])
    parser.addini("ptxsim_allow", "kinds of findings that fail no test, one a word", type="args", default=[])


_simulation: Simulation | None = None  # of this process, whose CuTe DSL can be taken over once


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start before any conftest.py can import CuTe DSL."""
    global _simulation
    if _simulation is not None or not _wanted(early_config):
        return
    target = early_config.getini("ptxsim_arch") or os.environ.get("CUTE_DSL_ARCH") or "sm_90a"
    if not re.fullmatch(r"sm_\d{2,3}[af]?", target):
        raise pytest.UsageError(f'ptxsim_arch: "{target}" is no architecture; right would be sm_90a or sm_100a')
    allow, checks = early_config.getini("ptxsim_allow"), early_config.getini("ptxsim_checks") or None
    simulation = Simulation(target, Options(early_config.getini("ptxsim_schedule"), checks=checks, allow=allow))
    simulation.start()
    _simulation = simulation


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


def pytest_report_header() -> str | None:
    """Say that kernels are simulated."""
    return None if _simulation is None else f"ptxsim: CuTe kernels for {_simulation.target} run on the CPU"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many launches were simulated, by pytest-xdist's workers too."""
    if _simulation is not None:
        ended = [x for reports in terminalreporter.stats.values() for x in reports if hasattr(x, "user_properties")]
        noted = [pair for x in {x.nodeid: x for x in ended}.values() for pair in x.user_properties]
        launches, findings = (sum(n for name, n in noted if name == f"ptxsim {what}") for what in COUNTED)
        terminalreporter.write_line(f"ptxsim: {launches} launches, {findings} findings ({_simulation.target})")


def pytest_unconfigure() -> None:
    """Give torch its own devices back."""
    if _simulation is not None:
        _simulation.stack.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Take the options of a test from its marker."""
    if _simulation is not None:
        _simulation.launches = _simulation.findings = 0
        settings = [mark.kwargs for mark in reversed(list(item.iter_markers("ptxsim")))]
        _simulation.options = Options(**vars(_simulation.defaults) | {k: v for x in settings for k, v in x.items()})
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Fail the setup of a test whose fixtures ran a faulty kernel."""
    return (yield from _judged(item, "setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test whose kernels have findings, or add them to its own error."""
    return (yield from _judged(item, "call"))


def _judged(item: pytest.Item, when: str) -> Generator[None, object, object]:
    try:
        result = yield
    except BaseException:
        if text := _ended(item):
            item.add_report_section(when, "ptxsim", text)
        raise
    if text := _ended(item):
        pytest.fail(text, pytrace=False)
    return result


def _ended(item: pytest.Item) -> str:
    """Note the counts of a test so far; return its new findings as text."""
    if _simulation is None:
        return ""
    text = _simulation.report()
    if _simulation.launches:
        others = [pair for pair in item.user_properties if not pair[0].startswith("ptxsim ")]
        item.user_properties[:] = [*others, *((f"ptxsim {x}", getattr(_simulation, x)) for x in COUNTED)]
    return text
