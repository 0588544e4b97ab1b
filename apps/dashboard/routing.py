"""Addresses of the sockets. Origin and session are checked before these are reached."""

from django.urls import path

from apps.dashboard.consumers import RunConsumer

websocket_urlpatterns = [path("ws/runs/<int:pk>", RunConsumer.as_asgi())]
