"""Knowledge entries of docs/knowledge, checks of their claims, and kernels' verdicts on them."""
