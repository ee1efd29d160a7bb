"""Verdict per GPU: the faster DSL, how sure, why, and each kernel's cost."""
