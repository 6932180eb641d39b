"""What pages call things."""

from __future__ import annotations

import pytest

from horizont.networks.catalogue import NETWORKS
from horizont.reporting import labels


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_a_name_of_its_own(name: str) -> None:
    assert labels.network_label(name) not in NETWORKS
