"""The demo: from nothing to a trained model, with its numbers, on this machine."""
