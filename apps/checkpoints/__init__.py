"""The published weights of policy versions: adopted, served, kept or retired."""
