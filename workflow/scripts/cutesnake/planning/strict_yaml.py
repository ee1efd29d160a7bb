"""Read this project's YAML files strictly: no key twice, one-line errors with place."""

import contextlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml


class YamlError(ValueError):
    """Report a file that is missing, no YAML, or has a duplicate key; one line."""


class _Loader(yaml.SafeLoader):
    """PyYAML's loader, but strict about equal keys and about numbers."""


class _FastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's loader: strict, fast, but with worse messages, and overflows on deep nesting."""


DEEPEST = 2000  # levels that _FastLoader is trusted with; it overflows beyond 10,000


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    lines: dict[Hashable, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
        if isinstance(key, Hashable) and key in lines:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is there twice, first in line {lines[key]}", key_node.start_mark
            )
        lines[key] = line
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


def _whole_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    """YAML 1.1 reads 010 as eight and 1:30 as ninety, which nobody means."""
    number, text = loader.construct_yaml_int(node), node.value.lstrip("+-").replace("_", "")
    if text.isdigit() and text.startswith("0") and text.strip("0"):
        means = f"{number} in YAML, as an octal number; write {number}, or {text.lstrip('0')}"
    elif ":" in text:
        means = f"{number} in YAML, to the base of 60; write {number}, or {node.value!r} in quotes"
    else:
        return number
    raise yaml.constructor.ConstructorError(None, None, f"{node.value} is {means}", node.start_mark)


for _strict in (_Loader, _FastLoader):
    _strict.add_constructor("tag:yaml.org,2002:int", _whole_number)
    _strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(text: str) -> Any:
    """Parse YAML text of this project by libyaml, if installed, ten times faster.

    Raises yaml.YAMLError. Not for third-party texts: deep nesting would end the process.
    """
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def parse(text: str, name: str) -> Any:
    """Return what YAML text says; YamlError, which names the text `name`, if it is wrong."""
    if _depth(text) <= DEEPEST:
        with contextlib.suppress(yaml.YAMLError, ValueError):
            return yaml.load(text, _FastLoader)
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        tab = mark is not None and mark.buffer is not None and "\t" in (error.problem or "") + _line(text, mark.line)
        hint = "; indent with spaces, not with tabs" if tab else ""
        message = error.problem or error.context or ""
        if message.startswith("but ") and error.context:  # the half of a sentence
            message = f"{error.context}, {message}"
        raise YamlError(f"{where}: {message}{hint}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise YamlError(f"{name}: {' '.join(str(error).split())}") from error


def read(path: Path | str, name: str | None = None) -> Any:
    """Return a YAML file's data; YamlError names the file, or `name`."""
    name = name or str(path)
    try:
        return parse(Path(path).read_bytes().decode("utf-8-sig"), name)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise YamlError(f"{name}:{line}: this is not UTF-8; save the file with that encoding") from error
    except OSError as error:
        raise YamlError(f"{name}: {error.strerror}") from error


def _depth(text: str) -> int:
    """Return a bound of a text's nesting depth, by columns and brackets."""
    return 2 * max(map(len, text.splitlines()), default=0) + text.count("[") + text.count("{")


def _line(text: str, number: int) -> str:
    lines = text.splitlines()
    return lines[number] if number < len(lines) else ""
