"""Members of groups, each a process of its own: so that a crash is one."""
