"""Named models to start from."""
