"""MkDocs hook: publish Markdown from outside docs/, and resolve links into the repository."""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {  # file of the repository -> page of the site
    "config/README.md": "reference/configuration.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks.repository")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the pages of PAGES."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, **_: Any) -> str:
    """Rewrite links, outside of code blocks, to what they lead to on the site."""
    parts = re.split(r"(^```.*?^```[^\S\n]*$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _rewrite(part, page, config) for part in parts)


def _rewrite(text: str, page: Page, config: Any) -> str:
    source = Path(str(page.file.abs_src_path))

    def target(match: re.Match[str]) -> str:
        path = (source.parent / match["path"]).resolve()
        anchor = match["anchor"] or ""
        if not path.exists():
            log.warning("%s: no file %s", source.relative_to(ROOT), match["path"])
            return match[0]
        name = path.relative_to(ROOT).as_posix()
        if name in PAGES or path.is_relative_to(DOCS):
            there = PAGES.get(name) or path.relative_to(DOCS).as_posix()
            return f"[{match['text']}]({posixpath.relpath(there, posixpath.dirname(page.file.src_uri))}{anchor})"
        if not config.repo_url:
            return match["text"]
        kind = "tree" if path.is_dir() else "blob"
        return f"[{match['text']}]({config.repo_url.rstrip('/')}/{kind}/main/{name}{anchor})"

    return LINK.sub(target, text)
