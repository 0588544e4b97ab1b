"""Users, projects and tokens in the admin. Secrets are shown nowhere; tokens are issued by the API and revoked here."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from apps.accounts.models import ApiToken, Membership, Project, User

admin.site.register(User, UserAdmin)


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ("user",)


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin):
    list_display = ("name", "slug", "created_at")
    search_fields = ("name", "slug")
    ordering = ("slug",)
    inlines = (MembershipInline,)


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    list_display = ("name", "user", "key_id", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("name", "key_id", "user__username")
    ordering = ("-created_at", "-id")
    readonly_fields = ("user", "name", "key_id", "created_at", "expires_at", "revoked_at", "last_used_at")
    exclude = ("digest",)
    actions = ("revoke",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.action(description="Revoke the chosen tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, chosen: QuerySet[ApiToken]) -> Any:
        for token in chosen.filter(revoked_at=None):
            token.revoke(timezone.now())
