"""Cases on a card: correctness, timing, profiles, and the worker that runs them."""
