"""Derive builds, cases and reasons for omissions from configuration and machine."""
