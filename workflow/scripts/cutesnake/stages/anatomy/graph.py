"""Draw roles and barriers as SVG: a column per role, a row per barrier group."""

import html
from collections.abc import Mapping, Sequence

from cutesnake.model.records.anatomy import AnatomyFunction, Barrier, NamedBarrier, Role, Shared
from cutesnake.stages.anatomy.numbers import of_warps

COLUMN, LEFT, ROW, HEAD = 150, 236, 40, 62
COLOURS = 8  # of the palette: --c1 to --c8


def colours(roles: Sequence[Role]) -> dict[str, str]:
    """Return role -> CSS colour, for figure, tables and listing."""
    return {role.name: f"var(--c{place % COLOURS + 1})" for place, role in enumerate(roles)}


def draw(function: AnatomyFunction) -> str | None:
    """Return the figure of one function; None without used barriers."""
    roles = function.roles or []
    groups = [g for g in function.barriers or [] if g.arrivals or g.waits]
    named = [b for b in function.named_barriers or [] if b.roles]
    if not roles or not (groups or named):
        return None
    colour, place = colours(roles), {role.name: n for n, role in enumerate(roles)}
    width = LEFT + COLUMN * len(roles)
    height = HEAD + ROW * (len(groups) + len(named)) + 16
    parts = [_head(role, place[role.name], colour[role.name], height) for role in roles]
    full = {offset for p in function.pipelines or [] for offset in p.full_offsets}
    empty = {offset for p in function.pipelines or [] for offset in p.empty_offsets}
    for row, group in enumerate(groups):
        state = "full" if group.offset in full else "empty" if group.offset in empty else "signal"
        parts.append(_group_row(group, state, HEAD + ROW * row + 24, place, colour))
    for row, barrier in enumerate(named, start=len(groups)):
        parts.append(_named_row(barrier, HEAD + ROW * row + 24, place, colour))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui,sans-serif" font-size="12">{"".join(parts)}</svg>'
    )


def _middle(place: int) -> int:
    return LEFT + COLUMN * place + COLUMN // 2


def _head(role: Role, place: int, colour: str, height: int) -> str:
    x = _middle(place)
    text = role.name.split(" + ")
    lines = text if len(text) < 3 else [" + ".join(text[:2]) + " +", " + ".join(text[2:])]
    name = "".join(
        f'<text x="{x}" y="{16 + 14 * n}" text-anchor="middle" font-weight="600" fill="{colour}">'
        f"{html.escape(line + (' +' if len(text) == 2 and n == 0 else ''))}</text>"
        for n, line in enumerate(lines)
    )
    count = of_warps(role.warps)
    return (
        f'{name}<text x="{x}" y="46" text-anchor="middle" fill="var(--soft)">{count}</text>'
        f'<line x1="{x}" y1="54" x2="{x}" y2="{height - 8}" stroke="{colour}" stroke-width="2" stroke-opacity=".45"/>'
    )


def _label(y: int, title: str, detail: str) -> str:
    return (
        f'<text x="4" y="{y - 4}" fill="var(--ink)">{html.escape(title[:34])}</text>'
        f'<text x="4" y="{y + 10}" fill="var(--soft)" font-size="11">{html.escape(detail[:44])}</text>'
        f'<line x1="0" y1="{y + 18}" x2="{LEFT - 8}" y2="{y + 18}" stroke="var(--line)"/>'
    )


def _group_row(group: Barrier, state: str, y: int, place: Mapping[str, int], colour: Mapping[str, str]) -> str:
    stages = f" x {group.stages}" if group.stages > 1 else ""
    kinds = sorted({arrival.kind for arrival in group.arrivals})
    detail = f"{state}, {group.count} arrivals" if group.count != 1 else f"{state}, 1 arrival"
    detail += f": {', '.join(kinds)}" if kinds else ""
    came = list(dict.fromkeys(arrival.role for arrival in group.arrivals))
    waits = [wait.role for wait in group.waits]
    name = f"{group.name or 'mbarrier'}{stages} @{group.offset}"
    return _label(y, name, detail) + _arrows(came, waits, y, place, colour, "0" if state == "full" else "5 4")


def _named_row(barrier: NamedBarrier, y: int, place: Mapping[str, int], colour: Mapping[str, str]) -> str:
    threads = ", ".join(map(str, barrier.threads))
    label = _label(y, f"named barrier {barrier.number}", f"all wait for all, {threads} threads")
    spots = [_middle(place[role]) for role in barrier.roles]
    line = f'<line x1="{min(spots)}" y1="{y}" x2="{max(spots)}" y2="{y}" stroke="var(--soft)" stroke-dasharray="2 3"/>'
    dots = "".join(
        f'<rect x="{_middle(place[role]) - 5}" y="{y - 5}" width="10" height="10" fill="{colour[role]}"/>'
        for role in barrier.roles
    )
    return label + line + dots


def _arrows(
    came: Sequence[str], waits: Sequence[str], y: int, place: Mapping[str, int], colour: Mapping[str, str], dash: str
) -> str:
    out = []
    for source in came:
        for target in waits:
            a, b = _middle(place[source]), _middle(place[target])
            style = f'stroke="{colour[source]}" stroke-width="1.6" fill="none" stroke-dasharray="{dash}"'
            if a == b:
                out.append(f'<path d="M{a} {y} c34 -16 34 16 4 8" {style}/>')
            else:
                end = b - 8 if b > a else b + 8
                out.append(f'<line x1="{a}" y1="{y}" x2="{end}" y2="{y}" {style}/>')
    for role in came:
        out.append(f'<circle cx="{_middle(place[role])}" cy="{y}" r="4.5" fill="{colour[role]}"/>')
    for role in waits:
        x = _middle(place[role])
        left = any(place[source] > place[role] for source in came)
        right = any(place[source] < place[role] for source in came) or role in came
        if right or not came:
            out.append(f'<path d="M{x - 12} {y - 5} L{x - 2} {y} L{x - 12} {y + 5} z" fill="var(--ink)"/>')
        if left:
            out.append(f'<path d="M{x + 12} {y - 5} L{x + 2} {y} L{x + 12} {y + 5} z" fill="var(--ink)"/>')
    return "".join(out)


def budget(shared: Shared) -> str | None:
    """Draw shared memory as a bar: the share of every buffer, and free bytes."""
    if not shared.buffers:
        return None
    width, parts, x = 900.0, [], 0.0
    scale = width / shared.limit_bytes
    for n, buffer in enumerate(shared.buffers):
        w = buffer.bytes * scale
        x = buffer.offset * scale
        parts.append(
            f'<rect x="{x:.2f}" y="2" width="{max(w, 0.6):.2f}" height="26" fill="var(--c{n % COLOURS + 1})">'
            f"<title>{html.escape(buffer.name)}: {buffer.bytes:,} B</title></rect>"
        )
        stages = buffer.stages or 1
        for stage in range(1, stages):
            at = x + w * stage / stages
            parts.append(f'<line x1="{at:.2f}" y1="2" x2="{at:.2f}" y2="28" stroke="var(--paper)"/>')
        if w > 60:
            parts.append(
                f'<text x="{x + w / 2:.1f}" y="44" text-anchor="middle" fill="var(--ink)">'
                f"{html.escape(buffer.name[: int(w / 7)])}</text>"
            )
    left = (shared.left_bytes or 0) / 1024
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} 50" width="{width:.0f}" height="50" '
        f'role="img" font-family="system-ui,sans-serif" font-size="12"><rect x="0" y="2" width="{width:.0f}" '
        'height="26" '
        f'fill="none" stroke="var(--line)"/>{"".join(parts)}<title>{left:.1f} KB left</title></svg>'
    )
