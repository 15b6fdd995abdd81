"""`headgate acls`: access rules, of Headgate or of any Kafka broker since 2.0.

command.py        options, output, exit codes
options.py        options that name principals, operations and resources, as rules and filters
roles.py          the rules of a producer, a consumer, of Spark
rows.py           rules as rows, as JSON lines of a file, and as command lines
actions.py        list, add, remove
why.py            the rule that decides
consequences.py   who gains and who loses access by a change of rules, pure
suggestions.py    the rules that allow what a broker has observed, pure
suggest.py        its command
"""
