"""The broker under a service manager, as systemd is one: notifications, a watchdog, unit files."""
