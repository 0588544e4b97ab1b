"""Every address of the web process."""

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from controlplane import api, health

handler400 = "controlplane.problems.bad_request"
handler403 = "controlplane.problems.permission_denied"
handler404 = "controlplane.problems.page_not_found"
handler500 = "controlplane.problems.server_error"

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("admin/", admin.site.urls),
    path("api/v1/", include(api.urlpatterns)),
    path("api/schema", SpectacularAPIView.as_view(), name="api-schema"),
    path("api/docs", SpectacularSwaggerSplitView.as_view(url_name="api-schema"), name="api-docs"),
    path("", include("apps.dashboard.urls")),
]
