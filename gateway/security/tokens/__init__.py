"""Delegation tokens (KIP-48, KIP-373): their rules, their secrets, and logins by them."""
