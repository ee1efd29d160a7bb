"""Shared page functions: read templates, add styles and write pages."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from cutesnake.model import provenance, record
from cutesnake.model.paths import TEMPLATES
from cutesnake.report.palette import DARK, LIGHT
from cutesnake.runtime import shareable

# Parts of a page that are copied as they are.
KEPT = re.compile(r"(<pre\b.*?</pre>|<style\b.*?</style>|<script\b.*?</script>)", re.DOTALL)

# What HTML lets a page omit: end tags, and quotes of plain values. Both are a tenth of a page with large tables.
END_TAGS = re.compile(r"</(?:td|th|tr|li|dt|dd)>")
QUOTES = re.compile(r' (class|scope|colspan|data-v|id|x|y)="([\w.#-]+)"(?=[ >])| (href)="(#[\w.-]+)"(?=[ >])')


def template(name: str, filters: Mapping[str, Callable[..., Any]] | None = None) -> jinja2.Template:
    """Load a template of `workflow/report/` with escaping and strict undefined names."""
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
    """Return the variables of a page's head: style sheet and colours."""
    return {
        "style": Markup((TEMPLATES / "style.css").read_text()),
        "light": _variables(LIGHT),
        "dark": _variables(DARK),
    }


def _variables(colours: Mapping[str, str]) -> Markup:
    return Markup("".join(f"--{name}:{value};" for name, value in colours.items()))


def write(page: str, output: Path | str, pages: Iterable[Path] = ()) -> None:
    """Write a page; raise ShareError, and write nothing, if it names this machine or user.

    The page is written without what browsers do not need. `pages` are pages that the job has already written.
    """
    shareable.check(page, str(output))
    record.write_text(output, provenance.signed_page(brief(page), provenance.digests(pages, Path(output).parent)))


def brief(page: str) -> str:
    """Remove repeated white space, optional end tags, and optional quotes."""
    parts = KEPT.split(page)  # kept parts have odd indices
    parts[::2] = [QUOTES.sub(r" \1\3=\2\4", END_TAGS.sub("", re.sub(r"(\s)\s+", r"\1", part))) for part in parts[::2]]
    return "".join(parts)
