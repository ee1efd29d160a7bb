"""Check the command line's configurations before Snakemake reads them.

Snakemake reads `--configfile` before the Snakefile. It ends with a traceback where a file is missing, is a folder or is
not UTF-8, and where an entry of `--config` is no KEY=VALUE. A YAML error names neither file nor line. Profiles are
templates that Snakemake fills in first: they call `check`, so that each mistake is one line.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cutesnake.planning import strict_yaml

OPTIONS = ("--configfile", "--configfiles")
AS_ENTRY = (
    "what follows --config is read as KEY=VALUE, such as 'timing={max_seconds: 5}'; name targets before it, or after --"
)


def check(arguments: Sequence[str]) -> None:
    """End the process with one line if a configuration cannot be read.

    It must be a mapping, and `--config` must hold KEY=VALUE. An option given twice is a mistake too, as Snakemake
    silently takes the last one.
    """
    names = [argument.partition("=")[0] for argument in arguments]
    for name, others in (("--configfile", OPTIONS), ("--config", ("--config", "-C"))):
        if sum(names.count(other) for other in others) > 1:
            sys.exit(f"{name} is there twice, and Snakemake would take the last one alone: put all behind one {name}")
    for entry in _behind(arguments, ("--config", "-C")):
        key, sign, value = entry.partition("=")
        if not (sign and key.isidentifier()):
            sys.exit(f"--config {entry}: {_right(key, value) if sign else AS_ENTRY}")
    for place, file in enumerate(_behind(arguments, OPTIONS)):
        if message := _wrong(Path(file), first=place == 0):
            sys.exit(message)


def _right(key: str, value: str) -> str:
    """How to set a value inside of a mapping, for a key such as `timing.max_seconds`."""
    first, *others = key.split(".")
    if not (others and all(name.isidentifier() for name in (first, *others))):
        return AS_ENTRY
    inside = "".join(f"{{{name}: " for name in others) + value + "}" * len(others)
    return f"write '{first}={inside}'"


def _behind(arguments: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield what Snakemake takes for an option's values: all up to the next option."""
    taking = False
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if argument.startswith("-"):
            taking = argument in options
            if sign and name in options:
                yield value
        elif taking:
            yield argument


def _wrong(path: Path, first: bool) -> str | None:
    """Return what is wrong with a file; None if it can be read only once."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return None
    try:
        result = strict_yaml.read(path)
    except strict_yaml.YamlError as error:
        hint = "; what follows --configfile is read as further files: name targets before it, or after --"
        return f"--configfile {error}{'' if first or path.exists() else hint}"
    if isinstance(result, dict):
        return None
    return f"--configfile {path}: it must have keys at its top level, such as `targets: [sm_100a]`"
