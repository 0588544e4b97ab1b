"""What the work runs on: workers by incarnation, policy endpoints."""
