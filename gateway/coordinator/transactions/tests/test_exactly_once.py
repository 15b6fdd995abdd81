"""Histories of a whole broker: every record is copied once, whatever happens."""

from __future__ import annotations

import pytest

from headgate.gateway.coordinator.transactions.tests import exactly_once


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_every_record_is_copied_exactly_once(seed: int) -> None:
    exactly_once.run(seed)
