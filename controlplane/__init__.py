"""The program around the apps: settings, entry points, and the processes that `manage.py up` keeps running."""
