"""Processes are killed while they work, on the stack that a user runs."""
