"""Shared memory of cute_sm90: Q and two stages of a page."""

LIMIT = 232_448  # bytes a CTA may have on Hopper and Blackwell
ROWS, PAGE, WIDTH, BYTES = 64, 64, 576, 2  # query rows, tokens, columns, bytes of an element


def stages(rows, page):
    """Return how many stages of a page fit next to Q."""
    return (LIMIT - rows * WIDTH * BYTES) // (page * WIDTH * BYTES)


def test_q_and_two_stages_fit_once():
    assert stages(ROWS, PAGE) == 2  # the next page is loaded while one is multiplied
    assert stages(ROWS, 2 * PAGE) == 1  # a larger tile leaves no second stage
    assert 2 * (ROWS + PAGE) * WIDTH * BYTES > LIMIT  # a second CTA per SM does not fit
