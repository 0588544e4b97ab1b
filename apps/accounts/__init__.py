"""Who may see and do what: users, projects, roles, API tokens."""
