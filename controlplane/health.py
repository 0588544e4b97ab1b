"""Whether this process lives, and whether it can work: for probes, without a login."""

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse

WAIT_SECONDS = 2


def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers; nothing else is asked."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """Database and channel layer answer; 503 names what does not."""
    checks = {"database": _database_answers(), "channels": _channels_answer()}
    ready = all(checks.values())
    return JsonResponse({"status": "ready" if ready else "not ready", **checks}, status=200 if ready else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _channels_answer() -> bool:
    client = redis.Redis.from_url(settings.ASSAY_CHANNELS_URL, socket_timeout=WAIT_SECONDS)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
