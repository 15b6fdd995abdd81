"""`headgate doctor` and `headgate bundle`, the installed commands, beside brokers with one fault each."""
