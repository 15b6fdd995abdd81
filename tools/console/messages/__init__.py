"""Messages of topics: read from any place, searched, decoded for people, and exported.

The work is done by a child process (`process.py`) with limits of memory and time; `child.py` starts it and passes its
answers on. So no record, however it was made, can stop or fill the console.
"""
