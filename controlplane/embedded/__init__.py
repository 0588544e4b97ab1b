"""PostgreSQL and Valkey from their wheels: one machine, nothing installed.

Both listen on Unix sockets only, and end with the process that started them.
"""
