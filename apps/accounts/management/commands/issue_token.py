"""manage.py issue_token USER NAME: a new API token of a user, printed once."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.accounts.models import ApiToken, User


class Command(BaseCommand):
    help = "Issues an API token of a user and prints it. It is shown this once and not kept."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="whose token it is, by username")
        parser.add_argument("name", help="what it is for")

    def handle(self, *args: Any, user: str, name: str, **options: Any) -> None:
        owner = User.objects.filter(username=user, is_active=True).first()
        if owner is None:
            raise CommandError(f"There is no active user {user!r}.")
        _, text = ApiToken.issue(owner, name)
        self.stdout.write(text)
