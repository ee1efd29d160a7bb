"""What all pages share: how templates are read, how a page looks, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from cutesnake import record, shareable
from cutesnake.palette import DARK, LIGHT
from cutesnake.places import TEMPLATES


def template(name: str, filters: Mapping[str, Callable[..., Any]] | None = None) -> jinja2.Template:
    """A template of `workflow/report/`, which escapes what it is given and refuses names that nobody defined."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters or {}
    return environment.get_template(name)


def look() -> dict[str, Markup]:
    """What the head of a page asks for: the style sheet, and the colours `light` and `dark` as its variables."""
    return {
        "style": Markup((TEMPLATES / "style.css").read_text()),
        "light": _variables(LIGHT),
        "dark": _variables(DARK),
    }


def _variables(colours: Mapping[str, str]) -> Markup:
    return Markup("".join(f"--{name}:{value};" for name, value in colours.items()))


def write(page: str, output: Path | str) -> None:
    """Write a page; ShareError, and no page, if it names this machine, its user or a folder of theirs."""
    shareable.check(page, str(output))
    record.write_text(output, page)
