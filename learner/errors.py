"""The root of the learner's exceptions. A step that ends in one has changed no weight, unless it says so."""


class LearnerError(Exception):
    """Something that the learner refuses or cannot do, said so that a person can act on it."""
