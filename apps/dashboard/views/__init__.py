"""Entry points: translate the request, ask one query or verb, translate back."""
