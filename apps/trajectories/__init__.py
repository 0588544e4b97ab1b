"""The immutable record of each attempt, and the grade of its final state."""
