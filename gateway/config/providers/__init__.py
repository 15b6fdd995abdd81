"""Providers of configs: values that stand in files or in the environment."""
