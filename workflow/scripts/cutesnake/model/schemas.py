"""Write workflow/schemas/*.json from the types: `python -m cutesnake.model.schemas`."""

import json
from typing import Any

import msgspec

from cutesnake.model.inputs import INPUTS
from cutesnake.model.paths import SCHEMAS
from cutesnake.model.record import TYPES, type_of, write_text


def texts() -> dict[str, str]:
    """Return the text of every schema by file name."""
    kinds: dict[str, Any] = {**{stage: type_of(stage) for stage in TYPES}, **INPUTS}
    return {f"{name}.schema.json": _text(kind) for name, kind in sorted(kinds.items())}


def _text(kind: Any) -> str:
    (schema,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root = parts.pop(schema["$ref"].rpartition("/")[2]) if "$ref" in schema else schema
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return _lines({**head, **root, **({"$defs": parts} if parts else {})}, 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    """Return JSON text; what fits in a line of 120 characters is one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + depth <= 110 or not isinstance(value, dict | list):
        return line
    pad, (start, end) = " " * (depth + 1), "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        inside = [f"{json.dumps(key)}: {_lines(one, depth + 1)}" for key, one in value.items()]
    else:
        inside = [_lines(one, depth + 1) for one in value]
    return f"{start}\n" + ",\n".join(pad + one for one in inside) + f"\n{' ' * depth}{end}"


def main() -> None:
    """Write all schemas; remove files that no type has."""
    schemas = texts()
    for path in SCHEMAS.glob("*.json"):
        if path.name not in schemas:
            path.unlink()
    for name, text in schemas.items():
        write_text(SCHEMAS / name, text)


if __name__ == "__main__":
    main()
