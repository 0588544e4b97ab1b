"""Tries: planned in groups, claimed under a fence, sent out, and expired when their worker is gone."""
