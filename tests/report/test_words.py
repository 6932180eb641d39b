"""What pages call things."""

from __future__ import annotations

import pytest

from horizont.networks.catalogue import NETWORKS
from horizont.report import words


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_a_name_of_its_own(name: str) -> None:
    assert words.network(name) not in NETWORKS
