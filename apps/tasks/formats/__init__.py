"""Readers of task folders as they come from the field."""
