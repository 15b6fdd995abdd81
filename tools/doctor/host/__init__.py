"""The machine of a broker: what its settings need and what its system gives. Linux; elsewhere what Python can read.

examine.py       which checks run, with settings or without
settings.py      the rows of a server.properties
limits.py        descriptors, memory maps, backlog, memory
disks.py         free space, file systems, disks that are mounted read-only
directories.py   data directories: their lock, identity and last stop
ports.py         which process listens where
clock.py         whether the kernel's clock is synchronised, and the time zone
processes.py     processes by their files in /proc
"""
