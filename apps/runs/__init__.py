"""One evaluation or training of one policy on one task set, with its chain of config revisions."""
