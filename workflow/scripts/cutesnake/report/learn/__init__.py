"""Reading guide: goals, questions, and answers from the anatomy of each kernel."""
