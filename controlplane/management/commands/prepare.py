"""manage.py prepare: the default project, the administrator, the endpoint. `up` runs it at each start."""

from django.core.management.base import BaseCommand

from controlplane.installation import prepare_installation


class Command(BaseCommand):
    help = "Make the default project, the administrator and the policy endpoint, where they are missing."

    def handle(self, *_args: object, **_options: object) -> None:
        made = prepare_installation()
        if made.new_password:
            self.stdout.write(f"Sign in as {made.administrator.username} with the password {made.new_password}")
            self.stdout.write("It is shown this once. Change it with: manage.py changepassword admin")
