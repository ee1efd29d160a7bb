"""Page of the hardware operations: one self-contained HTML file."""

from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from cutesnake.analysis.operations.table import make_table, read_builds, read_operations
from cutesnake.model import record
from cutesnake.model.records.operations import Operations, OperationUse
from cutesnake.report import html
from cutesnake.report.formatting import slug
from cutesnake.runtime.job import Files, listed

SHOWN = 3  # kernels shown per operation; the record has all


def write_files(builds: Files, checks: Files, operations: str, front: str, first: str, output: str, page: str) -> None:
    """Write the operations record `output` and its page from build and check records."""
    table = make_table(read_operations(operations), read_builds(listed(builds), listed(checks)))
    record.write("operations", output, table)
    write_page(table, front, first, page)


def write_page(table: Operations, front: str, first: str, output: Path | str) -> None:
    """Write the page; raise ShareError, and write nothing, if it names this machine."""
    page = render(table, front, first)
    html.write(page, output)


def render(table: Operations, front: str, first: str) -> str:
    """Return the page; `front` is the front page one folder up, of operator `first`."""

    def link_of(row: OperationUse) -> str:
        page = f"../{front}" if row.operator == first else f"{row.operator}.html"
        return f"{page}#{slug('kernel', row.operator, row.kernel)}"

    groups: dict[str, list[dict[str, Any]]] = {}
    for operation in table.operations:
        kernels = {(row.operator, row.kernel): row for row in reversed(operation.builds)}
        rows = list(reversed(kernels.values()))  # the first build of each kernel
        linked = [{**asdict(row), "link": link_of(row)} for row in rows[:SHOWN]]
        shown = {"name": operation.name, "rows": linked, "more": len(rows) - len(rows[:SHOWN])}
        groups.setdefault(operation.group, []).append(shown)
    used = [operation for operation in table.operations if operation.builds]
    ran = [operation for operation in used if any(row.simulated for row in operation.builds)]
    return html.template("operations.html.j2").render(
        **html.look(),
        front=front,
        groups=groups,
        builds=table.builds,
        total=len(table.operations),
        used=len(used),
        ran=len(ran),
        missing=[operation.name for operation in table.operations if not operation.builds],
    )
