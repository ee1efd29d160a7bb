"""Remove the machine's folders and names from records; refuse pages with them."""

import functools
import getpass
import json
import os
import re
import socket
import sys
import tempfile
from pathlib import Path

from cutesnake.model.catalog import roots
from cutesnake.model.paths import ROOT

SYSTEM = {"/", "/usr", "/usr/local", "/opt"}  # the same on every machine
SHORTEST_NAME = 4  # characters of a host's or user's name that is looked for: shorter ones are parts of words
EVERYWHERE = {"root", "user", "admin", "runner", "ubuntu", "debian", "localhost", "nobody"}  # they tell nothing
ORDINARY = re.compile(r"[A-Za-z]+")  # a name that may be a word of the page: it is warned of, not refused
# Absolute paths below folders that hold people's own, but for those inside of a URL or of another path.
PATH = re.compile(r"(?<![\w./:-])/(?:home|Users|root|tmp|var|mnt|scratch|data|nfs|gpfs|lustre)/[\w.@-]+")


class ShareError(ValueError):
    """A page that names this machine, its user or a path of theirs. One line."""


def places() -> dict[str, str]:
    """Folders of this machine, as text -> what records say instead."""
    result = {sys.base_prefix: "<python>", tempfile.gettempdir(): "<tmp>", str(Path.home()): "~"}
    result |= {sys.prefix: "<python>", str(Path.cwd()): ".", str(ROOT): "."}
    result |= {str(root): "kernels" for root in roots()[1:]}
    result |= {str(Path(path).resolve()): name for path, name in result.items()}
    return {path: result[path] for path in sorted(result, key=len, reverse=True) if path not in SYSTEM}


def neutral(text: str, more: dict[str, str] | None = None) -> str:
    """Return `text` without this machine's folders, and those in `more`, folder -> replacement."""
    known = {**places(), **(more or {})}
    for path in sorted(known, key=len, reverse=True):
        # A whole path, or the start of one: `/home/ann` is no part of `/home/anna`.
        text = re.sub(rf"{re.escape(path)}(?![\w-])", lambda _, path=path: known[path], text)  # type: ignore[misc]
    return text


def neutral_json(text: str) -> str:
    """Do as `neutral` for JSON, whose paths escape what is not ASCII."""
    return neutral(text, {json.dumps(path)[1:-1]: name for path, name in places().items()})


def check(text: str, where: str) -> None:
    """ShareError, which names what was found, if a page must not be shared."""
    for path in places():
        if re.search(rf"{re.escape(path)}(?![\w-])", text):
            raise ShareError(f"{where} names a folder of this machine, {path}: it was not written; this is a bug")
    if result := PATH.search(text):
        raise ShareError(f"{where} names a path of a machine, {result[0]}: it was not written; this is a bug")
    for what, name in _names():
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text):
            if not ORDINARY.fullmatch(name):
                raise ShareError(f"{where} has the name of this {what}, {name}: it was not written; this is a bug")
            print(f"{where} has the word {name}, which is the name of this {what}", file=sys.stderr)


@functools.cache
def _names() -> tuple[tuple[str, str], ...]:
    """Return the names of the machine and the user."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run a number that has no name
        user = ""
    result = (("machine", socket.gethostname()), ("user", user), ("user", os.environ.get("SUDO_USER", "")))
    return tuple(
        (what, name) for what, name in dict.fromkeys(result) if len(name) >= SHORTEST_NAME and name not in EVERYWHERE
    )
