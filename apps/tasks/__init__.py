"""What an agent solves: tasks, their immutable versions, and named task sets with splits."""
