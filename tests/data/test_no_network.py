"""A data set that cannot be downloaded: the reason in a sentence."""

import socket

import pooch
import pytest

from horizont.data.catalogue import dataset_info
from horizont.data.sources import fetch
from horizont.errors import UserError


def without_names(*args, **kwargs):
    """Raise what requests raises without a network."""
    del args, kwargs
    try:
        try:
            raise socket.gaierror(-3, "Temporary failure in name resolution")
        except socket.gaierror as error:
            raise OSError("Max retries exceeded with url (Caused by ...)") from error
    except OSError:
        raise ConnectionError("HTTPSConnectionPool(host=..., port=443)")  # noqa: B904


def refuse(*args, **kwargs):
    del args, kwargs
    raise ValueError("the MD5 hash of the file is another")


@pytest.mark.parametrize(
    ("retrieve", "reason"),
    [
        (without_names, "Temporary failure in name resolution"),
        (refuse, "the MD5 hash of the file is another"),
    ],
)
def test_the_first_error_is_the_reason(tmp_path, monkeypatch, retrieve, reason):
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(UserError) as caught:
        fetch(dataset_info("cifar10"), tmp_path)
    assert f".tar.gz: {reason}; needed: network, cifar-10-python.tar.gz in" in str(caught.value)
