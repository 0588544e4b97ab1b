"""What Assay's speed is measured with: each prints JSON and keeps its result beside it."""
