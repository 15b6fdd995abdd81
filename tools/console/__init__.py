"""`headgate console`: a page about a cluster, of Headgate or of any Kafka broker, served over HTTP.

A page of the console is one module in `page/pages/` with a line in `page/pages.js`; what the page asks for is one
function in `resources/` with a line in `resource_table.py`. docs/console.md has the steps.
"""
