"""cuTile beside CuTe: rows, cells and the sentences that follow from them."""
