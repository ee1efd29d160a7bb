"""What changed against a baseline: times held against their noise, and static figures of the builds."""
