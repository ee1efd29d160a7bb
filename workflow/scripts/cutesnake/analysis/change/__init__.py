"""Changes against a baseline: times compared with their noise, and static values of builds."""
