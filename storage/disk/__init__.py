"""Files beside records: names, small files, the bound on open files, pending deletions, room that is kept back."""
