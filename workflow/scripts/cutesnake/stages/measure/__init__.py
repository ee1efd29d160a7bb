"""Cases on a GPU: correctness, timing, profiles, and the worker that runs them."""
