"""How hard each task is for the policy as it is now."""
