"""Comparison of cuTile and CuTe: rows, cells and generated sentences."""
