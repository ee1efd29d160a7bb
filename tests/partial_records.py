"""Typed records of which a test says only what it needs."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

import msgspec


def filled(kind: Any, data: Any) -> Any:
    """Return a record or part with the keys of `data`; all others are None, unchecked."""
    if isinstance(kind, types.UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if data is None or not isinstance(data, Mapping | list):
        return data
    if isinstance(data, list):
        return [filled(get_args(kind)[0], one) for one in data]
    if get_origin(kind) is dict:
        return {key: filled(get_args(kind)[1], one) for key, one in data.items()}
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return data
    hints, fields = get_type_hints(kind), msgspec.structs.fields(kind)
    assert data.keys() <= {one.encode_name for one in fields}, data.keys()
    return kind(**{one.name: filled(hints[one.name], data.get(one.encode_name)) for one in fields})
