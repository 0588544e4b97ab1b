"""How anything in Assay changes state, and how it tells."""
