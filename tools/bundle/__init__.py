"""`headgate bundle`: one archive for a report about a broker. It has no records, and no secret.

command.py       the command
contents.py      the files of the archive, and the sources that gave none
host_files.py    limits, versions, the listing of log directories
redaction.py     hides secrets in every text, whatever its source
archive.py       the archive, with a bound on its size
"""
