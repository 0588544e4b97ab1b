"""Who asks, and whether his role allows it. What he may not even see is not found before this is asked."""

from rest_framework.exceptions import NotAuthenticated, PermissionDenied
from rest_framework.request import Request

from apps.accounts.models import Project, User


def signed_in(request: Request) -> User:
    """The user behind a request of the API."""
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user


def require_role(project: Project, user: User, role: str) -> None:
    """Raises PermissionDenied, which names the role that is needed."""
    if not project.allows(user, role):
        held = project.role_of(user) or "no member"
        raise PermissionDenied(
            f"This needs the role {role} in project {project.slug}; you are {held}. Ask an admin of the project."
        )
