"""Learner steps: a batch goes to the learner, a policy version comes back."""
