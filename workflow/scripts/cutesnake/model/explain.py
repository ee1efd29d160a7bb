"""Explain errors of typed data in one line: key, value and expected type."""

import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import inspect as kinds

Step = str | int
PATH = re.compile(r"(?P<message>.*?)(?: - at `(?:key in )?\$?(?P<path>.*)`)?", re.DOTALL)
STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


@dataclass(frozen=True)
class Problem:
    """The first thing wrong with data: where it is, and what would be right."""

    steps: tuple[Step, ...]
    value: Any
    asked: str = ""  # what the value must be, in words
    unknown: str | None = None  # a key that is not allowed
    missing: str | None = None  # a key that is not there
    allowed: tuple[str, ...] = ()  # keys or values

    def __str__(self) -> str:
        place = "/".join(map(str, self.steps)) or "the record itself"
        if self.unknown is not None:
            return f"{place}: unknown key {self.unknown!r}; allowed: {', '.join(self.allowed)}"[:400]
        if self.missing is not None:
            return f"{place}: key {self.missing!r} is missing"
        return f"{place}: {shown(self.value)}; {self.asked}"[:400]


def shown(value: Any) -> str:
    """Describe a value that is wrong."""
    return f"it is {'empty' if value is None else repr(value)[:200]}"


def problem(error: msgspec.ValidationError, data: Any, kind: Any) -> Problem:
    """Find what `error` says of `data`, which should have been of type `kind`."""
    match = PATH.fullmatch(str(error))
    assert match is not None
    message = match["message"]
    steps = _resolved(data, kind, match["path"] or "")
    if rule := re.fullmatch(r"(\w+): (.*)", message):  # raised by a __post_init__
        steps = (*steps, rule[1])
        return Problem(steps, _at(data, steps), re.sub(r"^it is .*?; ", "", rule[2]))
    asked = _type_at(kinds.type_info(kind), data, steps)
    if field := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        return Problem(steps, _at(data, steps), unknown=field[1], allowed=tuple(_keys(asked)))
    if field := re.fullmatch(r"Object missing required field `(.*)`", message):
        return Problem(steps, _at(data, steps), missing=field[1])
    value = _at(data, steps)
    if isinstance(asked, kinds.LiteralType):
        return Problem(steps, value, f"it must be {type_name(asked)}", allowed=tuple(map(str, asked.values)))
    return Problem(steps, value, f"it must be {_rule(asked, value)}")


def not_finite(data: Any, steps: tuple[Step, ...] = ()) -> Problem | None:
    """Find a number that is infinite or no number."""
    if isinstance(data, float) and not math.isfinite(data):
        return Problem(steps, data, "it must be a finite number")
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    problems = (not_finite(value, (*steps, key)) for key, value in inside)
    return next((one for one in problems if one is not None), None)


def type_name(kind: kinds.Type) -> str:
    """Name a type in terms of a JSON or YAML file, with a number's limits."""
    if isinstance(kind, kinds.UnionType):
        return " or ".join(dict.fromkeys(map(type_name, kind.types)))
    if isinstance(kind, kinds.LiteralType):
        return " or ".join(map(str, kind.values))
    if isinstance(kind, kinds.Metadata):
        return type_name(kind.type)
    limits = list(_limits(kind)) if isinstance(kind, kinds.IntType | kinds.FloatType) else []
    return _name(kind) + (f" ({', '.join(limits)})" if limits else "")


def _name(kind: kinds.Type) -> str:
    names: dict[Any, str] = {
        **{kinds.IntType: "a whole number", kinds.FloatType: "a finite number", kinds.StrType: "a text"},
        **{kinds.BoolType: "true or false", kinds.NoneType: "empty"},
        **{kinds.ListType: "a list", kinds.TupleType: "a list", kinds.VarTupleType: "a list"},
        **{kinds.DictType: "a mapping of keys to values", kinds.StructType: "a mapping of keys to values"},
    }
    return names.get(type(kind), "a value")


def _rule(kind: kinds.Type, value: Any) -> str:
    """Return what a value must be: its type, or the limit that it breaks."""
    if isinstance(kind, kinds.UnionType):
        fitting = [one for one in kind.types if isinstance(value, list | dict) and _is_of(one, value)]
        return _rule(fitting[0], value) if fitting else type_name(kind)
    if _is_of(kind, value):
        if isinstance(kind, kinds.TupleType):
            return f"a list with {len(kind.item_types)} entries"
        if limits := list(_limits(kind, value)):
            return " and ".join(limits)
    return type_name(kind) if not isinstance(kind, kinds.IntType | kinds.FloatType) else _name(kind)


def _limits(kind: Any, value: Any = None) -> Iterator[str]:
    """Yield the limits of a type in words; with a value, those that it breaks."""
    what, entry = _unit(kind)
    rules: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
        "ge": ("{} or more", operator.ge),
        "gt": ("more than {}", operator.gt),
        "le": ("{} or less", operator.le),
        "lt": ("less than {}", operator.lt),
        "min_length": (f"{what} with at least {{}} {entry}", lambda value, limit: len(value) >= limit),
        "pattern": ("a text like {}", lambda value, limit: re.search(limit, value) is not None),
    }
    for name, (phrase, holds) in rules.items():
        limit = getattr(kind, name, None)
        if limit is not None and (value is None or not holds(value, limit)):
            yield phrase.format(limit)


def _unit(kind: Any) -> tuple[str, str]:
    if isinstance(kind, kinds.DictType):
        return "a mapping", "key"
    return ("a text", "character") if isinstance(kind, kinds.StrType) else ("a list", "entry")


def _is_of(kind: kinds.Type, value: Any) -> bool:
    if isinstance(value, bool):
        return isinstance(kind, kinds.BoolType)
    fitting: tuple[tuple[Any, tuple[Any, ...]], ...] = (
        (int, (kinds.IntType, kinds.FloatType)),
        (float, (kinds.FloatType,)),
        (str, (kinds.StrType,)),
        (list, (kinds.ListType, kinds.TupleType, kinds.VarTupleType)),
        (dict, (kinds.DictType, kinds.StructType)),
    )
    return any(isinstance(value, python) and isinstance(kind, of) for python, of in fitting)


def _keys(kind: kinds.Type) -> Iterator[str]:
    for one in kind.types if isinstance(kind, kinds.UnionType) else [kind]:
        if isinstance(one, kinds.StructType):
            yield from (field.encode_name for field in one.fields)


def _type_at(kind: kinds.Type, data: Any, steps: tuple[Step, ...]) -> kinds.Type:
    if isinstance(kind, kinds.Metadata):
        return _type_at(kind.type, data, steps)
    if isinstance(kind, kinds.UnionType) and steps:
        return _type_at(next((one for one in kind.types if _is_of(one, data)), kind), data, steps)
    if not steps:
        return kind
    first, rest = steps[0], steps[1:]
    below = _at(data, (first,))
    if isinstance(kind, kinds.StructType):
        inside = next((field.type for field in kind.fields if field.encode_name == first), None)
    elif isinstance(kind, kinds.DictType):
        inside = kind.value_type
    elif isinstance(kind, kinds.TupleType):
        inside = kind.item_types[int(first)]
    else:
        inside = getattr(kind, "item_type", None)
    return kinds.AnyType() if inside is None else _type_at(inside, below, rest)


def _resolved(data: Any, kind: Any, path: str) -> tuple[Step, ...]:
    """Return the steps of a path, with mappings' keys, which msgspec omits, by trying."""
    steps: list[Step] = []
    for match in STEP.finditer(path):
        if match[1] is not None:
            steps.append(match[1])
        elif match[2] is not None:
            steps.append(int(match[2]))
        else:
            keys = list(_at(data, tuple(steps)))
            steps.append(next((key for key in keys if _fails(data, kind, steps, key)), "…"))
    return tuple(steps)


def _fails(data: Any, kind: Any, steps: list[Step], key: str) -> bool:
    """Whether data that has only this key in the mapping at `steps` fails below it."""
    try:
        msgspec.convert(_only(data, steps, key), kind)
    except msgspec.ValidationError as error:
        match = PATH.fullmatch(str(error))
        return match is not None and len(STEP.findall(match["path"] or "")) > len(steps)
    return False


def _only(data: Any, steps: list[Step], key: str) -> Any:
    if not steps:
        return {key: data[key]}
    inside = _only(data[steps[0]], steps[1:], key)
    if isinstance(data, list):
        return [inside if place == steps[0] else value for place, value in enumerate(data)]
    return {**data, steps[0]: inside}


def _at(data: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return None
    return data
