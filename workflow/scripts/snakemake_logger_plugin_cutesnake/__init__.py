"""Logger plugin of Snakemake: passes its events to `cutesnake.runtime.terminal`, which shows a short account.

The project's profiles select it, see `docs/decisions/terminal.md`. Nothing of `cutesnake` is imported before a run uses
it: Snakemake imports every installed plugin, also for the Snakefile of another checkout.
"""

import importlib.metadata
import re
import sys
from collections.abc import Sequence
from logging import Handler, LogRecord
from types import TracebackType
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

NAME = "cutesnake"
OLDEST = 9  # the first Snakemake with `--logger`
OWN_OUTPUT = frozenset(("--verbose", "--printshellcmds", "-p", "--debug-dag"))  # options for Snakemake's own output
WITH_P = re.compile(r"-[nFq]*p[nFq]*")  # such as -np


def chosen(arguments: Sequence[str]) -> list[str] | None:
    """Return the profile's `logger`; None if `arguments` ask for Snakemake's own output."""
    if any(word in OWN_OUTPUT or WITH_P.fullmatch(word) for word in arguments):
        return None
    if int(importlib.metadata.version("snakemake").partition(".")[0]) < OLDEST:  # it ends with its own line
        return None
    try:  # the registry looks on the module path only, where a project that is not installed is missing
        registry = LoggerPluginRegistry()
        if not registry.is_installed(NAME):
            registry.register_plugin(__name__, sys.modules[__name__])
    except (AttributeError, TypeError):  # another interface
        return None
    sys.excepthook = _say_interrupted
    return [NAME]


def _say_interrupted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in one line that Ctrl-C ended the planning, for which Snakemake has a traceback."""
    if issubclass(kind, KeyboardInterrupt):
        print("Interrupted before any job ran.", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


class LogHandler(LogHandlerBase):
    """Hands records to the terminal."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __init__(self, common_settings: Any, settings: Any) -> None:
        from cutesnake.runtime.terminal import Terminal

        Handler.__init__(self)  # the oldest interface does not
        super().__init__(common_settings, settings)
        quiet = {str(getattr(word, "name", word)).lower() for word in common_settings.quiet or ()}
        stream = sys.stdout if common_settings.stdout else sys.stderr
        self._terminal = Terminal(stream, dry_run=common_settings.dryrun, quiet=quiet)

    def emit(self, record: LogRecord) -> None:
        """Pass on a record: its event's name, level, text and fields."""
        try:
            event = getattr(record, "event", None)
            name = getattr(event, "name", None)
            self._terminal.take(name, record.levelno, record.getMessage() if record.msg else "", vars(record))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """End the run's account."""
        self._terminal.close()
        super().close()
