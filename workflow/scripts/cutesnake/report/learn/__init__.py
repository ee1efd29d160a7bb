"""What to read first, what to ask of it, and the answers that the anatomy of each kernel gives."""
