"""What is asked for, what this machine is, and what follows: builds, cases, and everything left out, with reasons."""
