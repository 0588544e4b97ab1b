"""Whether a task can be trusted: its solution passes and doing nothing fails, both executed in real boxes."""
