"""The one router of the REST API: each resource is registered here, in the order of the data."""

from rest_framework.routers import SimpleRouter

router = SimpleRouter(trailing_slash=False)
