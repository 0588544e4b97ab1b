"""For admin pages of what only verbs and jobs may write."""

from django.http import HttpRequest


class ReadOnly:
    """Nothing is added, changed or deleted here."""

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False
