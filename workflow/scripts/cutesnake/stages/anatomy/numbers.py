"""Numbers of warps and lines as runs, in text and back."""

from collections.abc import Sequence


def spans(numbers: Sequence[int]) -> str:
    """0, 1, 2, 3, 8 as «0-3, 8»."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def of_warps(numbers: Sequence[int]) -> str:
    """0, 1, 2 as «warps 0-2», 8 as «warp 8»."""
    return f"warp{'s' * (len(numbers) != 1)} {spans(numbers)}"


def numbers(text: str) -> set[int]:
    """Return the numbers that `spans` wrote: «3-5, 9» as {3, 4, 5, 9}."""
    result: set[int] = set()
    for part in filter(None, text.split(", ")):
        first, _, last = part.partition("-")
        result |= set(range(int(first), int(last or first) + 1))
    return result
