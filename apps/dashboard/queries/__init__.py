"""Every read that crosses apps, one module a page or part of a page; each gives a frozen view model."""
