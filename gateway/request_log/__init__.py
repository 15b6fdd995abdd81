"""The request log: a line for each slow request, and for one of so many, with the stages of the request."""
