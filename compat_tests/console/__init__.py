"""The console in Chromium: pages and flows as a person sees them; screenshots in build/console/."""
