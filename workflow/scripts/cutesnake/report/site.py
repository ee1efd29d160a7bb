"""Static site: report pages, documentation and data in one folder."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

from cutesnake.report.example_changes import NAME
from cutesnake.results import read_results, write_results
from cutesnake.runtime import shareable

MOST_BYTES = 60_000_000  # a page host accepts more, a reader does not
DATA = "recorded"
EXAMPLE = f"report/{NAME}"
TABLES = {"results.csv": "CSV", "results.parquet": "Parquet"}
RECORD = re.compile(r'(<a\b[^>]*?\shref=")\.\./((?:\.\./)*recorded/)')  # of the project's folder, which the site has
ENTRY = re.compile(r'(<a\b[^>]*?\shref=")[./]*docs/((?:knowledge|decisions)/[^"]+)\.md"')  # of the project's folder
LINK = re.compile(r'(<a\b[^>]*?)\shref="([^"#?]+)([^"]*)"([^>]*>)')


class SiteError(ValueError):
    """One-line error: the site is incomplete or too large."""


def write_site(front: str, project: str, folder: str) -> str:
    """Write the site and return a line about its contents.

    front: the front page, next to the other results. project: the project's folder. A page of an example
    (`example_changes.py`) in `report/` is linked from the front page. Raises SiteError, ShareError and OSError.
    """
    results, site, root = Path(front).parent, Path(folder), Path(project)
    if site.exists():
        shutil.rmtree(site)
    site.mkdir(parents=True)
    for page in (front, results / "catalogue.html"):
        shutil.copy2(page, site)
    for name in ("report", "compare"):
        shutil.copytree(results / name, site / name, ignore=shutil.ignore_patterns("*.json", ".snakemake*"))
    for page in results.glob("learn*.html"):
        shutil.copy2(page, site)
    shutil.copytree(root / DATA, site / DATA)
    frame = read_results(results)
    write_results(frame, site)
    docs = _documentation(root, site / "docs")
    pages = [page for page in sorted(site.rglob("*.html")) if not page.is_relative_to(site / "docs")]
    for page in pages:
        _adapt(page, site, docs)
    shutil.copy2(site / Path(front).name, site / "index.html")
    (site / ".nojekyll").touch()  # GitHub Pages serves the files as they are
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        raise SiteError(f"{folder} has {size / 1e6:.0f} MB; allowed: {MOST_BYTES / 1e6:.0f} MB")
    return f"{folder}: {len(pages)} pages, {len(frame)} rows of results, {size / 1e6:.1f} MB; {docs[1]}"


def _documentation(root: Path, folder: Path) -> tuple[str, str]:
    """Build the documentation, or copy it without mkdocs; return its first page and a remark."""
    if importlib.util.find_spec("mkdocs"):
        command = [sys.executable, "-m", "mkdocs"]
    elif program := shutil.which("mkdocs"):
        command = [program]
    else:
        shutil.copytree(root / "docs", folder, ignore=shutil.ignore_patterns("hooks", ".nav.yml"))
        return "docs/index.md", "documentation as Markdown, since mkdocs is not installed"
    options = ["build", "--quiet", "--config-file", str(root / "mkdocs.yml"), "--site-dir", str(folder.resolve())]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise SiteError(f"mkdocs: {''.join(last) or done.returncode}")
    return "docs/index.html", "documentation by mkdocs"


def _adapt(page: Path, site: Path, docs: tuple[str, str]) -> None:
    """Link to documentation and data, and remove links to missing files."""
    text = page.read_text(encoding="utf-8")
    up = os.path.relpath(site, page.parent)
    more = [(docs[0], "Docs"), *((file, name) for file, name in TABLES.items())]
    if (site / EXAMPLE).exists():
        more.append((f"{EXAMPLE}#changed", "Example: two versions"))
    links = " ".join(f'<a href="{os.path.normpath(f"{up}/{href}")}">{name}</a>' for href, name in more)
    text = text.replace("</nav>", f" {links}</nav>", 1)
    suffix = "/index.html" if docs[0].endswith(".html") else ".md"
    text = RECORD.sub(r"\1\2", text)
    text = ENTRY.sub(lambda match: f'{match[1]}{os.path.normpath(f"{up}/docs/{match[2]}{suffix}")}"', text)

    def known(match: re.Match[str]) -> str:
        target = unquote(match[2])
        if ":" in target or (page.parent / target).exists():
            return match[0]
        return f"{match[1]}{match[4]}"

    text = LINK.sub(known, text)
    shareable.check(text, str(page))
    page.write_text(text, encoding="utf-8")
