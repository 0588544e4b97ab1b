"""Rates, intervals and comparisons, as plain numbers: values in, values out, no Django."""
