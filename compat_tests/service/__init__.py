"""The broker as a service: notifications, sockets that are passed to it, restarts, stops, unit files, an image."""
