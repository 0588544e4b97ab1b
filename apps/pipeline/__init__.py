"""One pass carries a run along the flow: each stage in turn, safe to repeat and safe to miss."""
