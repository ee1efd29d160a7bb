"""Which operators a run is about, from the targets of its command line."""

import os
from collections.abc import Sequence
from pathlib import PurePath


def operators(targets: Sequence[str] | None, known: Sequence[str], front: str) -> list[str]:
    """Return the operators to plan for the requested targets.

    These are the operators of requested files, the first one for the front page, else all. targets: of the command
    line, empty for the default one, None if unknown. front: the front page's path.
    """
    if targets is None:
        return list(known)
    result: dict[str, None] = {}
    for target in targets or [front]:
        if os.path.normpath(target) == front:
            result[known[0]] = None
            continue
        parts = PurePath(target).parts
        named = {part for name in parts[1:] for part in (name, PurePath(name).stem)} & set(known)
        if not parts or parts[0] != "results" or len(named) != 1:
            return list(known)
        result |= dict.fromkeys(named)
    return [operator for operator in known if operator in result]
