"""All settings, read from the environment. With nothing set: embedded services, everything local in ASSAY_DATA."""

import os
from pathlib import Path
from typing import Any

import django_stubs_ext
from psycopg.conninfo import conninfo_to_dict

from controlplane import environment
from controlplane.embedded import folders
from controlplane.secret_key import load_secret_key

# Lets classes of Django that are generic in its stubs alone be written as such: ModelAdmin[User].
django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent

# Addresses and places. Sandbox workers and learners read the same variables.
ASSAY_DATA = environment.read_folder("ASSAY_DATA", BASE_DIR / "var")
ASSAY_DATABASE_URL = environment.read_postgres_url("ASSAY_DATABASE_URL", folders.database_url(ASSAY_DATA))
ASSAY_BROKER_URL, ASSAY_CHANNELS_URL = environment.read_together(
    {"ASSAY_BROKER_URL": folders.broker_url(ASSAY_DATA), "ASSAY_CHANNELS_URL": folders.channels_url(ASSAY_DATA)}
)
ASSAY_STORE_URL = environment.read_text("ASSAY_STORE_URL", str(ASSAY_DATA / "store"))
ASSAY_POLICY_URL = environment.read_http_url("ASSAY_POLICY_URL", "http://127.0.0.1:8100")
ASSAY_WEB_BIND = environment.read_bind("ASSAY_WEB_BIND", "127.0.0.1:8000")
ASSAY_THREADS = environment.read_number("ASSAY_THREADS", 8, least=1)
"""Threads of this process that use the database; its pool has two connections more."""
# Learner and policy server work at the same time: each gets half of the cores, or they wait for each other's threads.
ASSAY_TORCH_THREADS = environment.read_number("ASSAY_TORCH_THREADS", max(1, (os.cpu_count() or 2) // 2), least=1)

# Django
SECRET_KEY = environment.read_text("ASSAY_SECRET_KEY", "") or load_secret_key(ASSAY_DATA)
DEBUG = environment.read_flag("ASSAY_DEBUG", False)
ALLOWED_HOSTS = environment.read_list("ASSAY_ALLOWED_HOSTS", ("localhost", "127.0.0.1", "[::1]"))
CSRF_TRUSTED_ORIGINS = environment.read_list("ASSAY_TRUSTED_ORIGINS", ())
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
AUTH_USER_MODEL = "accounts.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

# Each app may import only those before it (DESIGN, section 2).
ASSAY_APPS = [
    "apps.lifecycle",
    "apps.accounts",
    "apps.fleet",
    "apps.tasks",
    "apps.policies",
    "apps.runs",
    "apps.rollouts",
    "apps.trajectories",
    "apps.rewards",
    "apps.buffer",
    "apps.training",
    "apps.checkpoints",
    "apps.evaluation",
    "apps.difficulty",
    "apps.admission",
    "apps.alerts",
    "apps.exports",
    "apps.pipeline",
    "apps.dashboard",
]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "channels",
    "csp",
    *ASSAY_APPS,
    "controlplane",
]

MIDDLEWARE = [
    "controlplane.request_id.RequestIdMiddleware",
    "controlplane.api_version.ApiVersionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "controlplane.slashes.SlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "controlplane.fragments.FragmentMiddleware",
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# The database. Celery closes the connection after every job: with the pool and an age of 0 that gives it back.
# The health check is the pool's: a connection that died with a restart of the database is not handed out.
_connection = conninfo_to_dict(ASSAY_DATABASE_URL)
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _connection.pop("dbname", "assay"),
        "USER": _connection.pop("user", ""),
        "PASSWORD": _connection.pop("password", ""),
        "HOST": _connection.pop("host", ""),
        "PORT": _connection.pop("port", ""),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**_connection, "pool": {"min_size": 1, "max_size": ASSAY_THREADS + 2, "timeout": 10}},
    }
}

# Hints to the live pages. An idle socket would die after five seconds with the client's own time limit.
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            "hosts": [{"address": ASSAY_CHANNELS_URL, "socket_timeout": None}],
            "capacity": 2000,
            "expiry": 15,
            "group_expiry": 86400,
        },
    }
}

# Files
STATIC_URL = "/static/"
STATIC_ROOT = ASSAY_DATA / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
MEDIA_ROOT = ASSAY_DATA / "uploads"

# The browser
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = environment.read_flag("ASSAY_HTTPS", False)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SESSION_COOKIE_SECURE else None
SECURE_HSTS_SECONDS = 31536000 if SESSION_COOKIE_SECURE else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        # The hash of the empty string: the charts add one empty style element and fill it by script.
        "style-src": ["'self'", "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        # These three do not fall back to default-src.
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# The REST API
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [
        "rest_framework.parsers.JSONParser",
        "rest_framework.parsers.MultiPartParser",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "controlplane.pagination.KeysetPagination",
    "DEFAULT_FILTER_BACKENDS": ["controlplane.filters.DeclaredFilters"],
    "EXCEPTION_HANDLER": "controlplane.problems.answer_with_problem",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Assay",
    "DESCRIPTION": "Runs, tasks, policies and their results.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": r"/api/v[0-9]+",
    # Enumerations stand where they are used: two resources' `state` are two things.
    "POSTPROCESSING_HOOKS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# What the programs print: to standard error, one line each; the supervisor puts the program's name before it.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"request": {"()": "controlplane.request_id.RequestIdFilter"}},
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s [%(request_id)s]: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request"]}},
    "root": {"handlers": ["console"], "level": environment.read_log_level("ASSAY_LOG_LEVEL", "INFO")},
    "loggers": {
        # Two lines for each job, of which there is one a second, would hide everything else.
        "celery.worker.strategy": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
    },
}
