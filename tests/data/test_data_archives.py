"""Damaged and malicious archives are refused; nothing is written to disk."""

import gzip
import io
import tarfile

import pytest

from horizont.data import archives
from horizont.data.archives import read_gzip, read_tar, read_uncompressed
from horizont.errors import UserError

WANTED = ("folder/wanted",)


def pack(*members, wanted=True):
    """Return a tar.gz with the wanted file and these (TarInfo, bytes)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        if wanted:
            members = (plain("./folder/wanted", b"content" * 1000), *members)
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def plain(name, content=b"x"):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def special(name, kind, target=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


@pytest.fixture
def archive(tmp_path):
    def write(content):
        path = tmp_path / "set.tar.gz"
        path.write_bytes(content)
        return path

    return write


def test_only_wanted_members_are_read(archive):
    folder = special("folder", tarfile.DIRTYPE)
    result = read_tar(archive(pack(folder, plain("other"))), WANTED)
    assert result == {"folder/wanted": b"content" * 1000}


MALICIOUS = {
    "parent": plain("../outside"),
    "parent inside": plain("folder/../../outside"),
    "absolute": plain("/etc/outside"),
    "backslash": plain("..\\outside"),
    "symlink": special("link", tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": special("link", tarfile.LNKTYPE, "folder/wanted"),
    "device": special("device", tarfile.CHRTYPE),
    "pipe": special("pipe", tarfile.FIFOTYPE),
    "twice": plain("folder/wanted"),
}


@pytest.mark.parametrize("member", MALICIOUS.values(), ids=MALICIOUS)
def test_malicious_members_are_refused_and_nothing_is_unpacked(archive, tmp_path, member):
    path = archive(pack(member))
    with pytest.raises(UserError, match=r"set\.tar\.gz: .*member"):
        read_tar(path, WANTED)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
@pytest.mark.parametrize("trusted", [True, False])
def test_the_wanted_member_must_be_a_file(archive, kind, trusted):
    path = archive(pack(special("folder/wanted", kind, "/etc/passwd"), wanted=False))
    with pytest.raises(UserError, match="member 'folder/wanted'"):
        read_tar(path, WANTED, trusted=trusted)


def test_other_members_of_the_official_archive_may_be_links(archive):
    path = archive(pack(special("link", tarfile.SYMTYPE, "elsewhere")))
    assert set(read_tar(path, WANTED, trusted=True)) == set(WANTED)


def test_a_missing_member_is_named(archive):
    with pytest.raises(UserError, match="lacks folder/wanted"):
        read_tar(archive(pack(plain("other"), wanted=False)), WANTED)


@pytest.mark.parametrize("fraction", [0.0, 0.01, 0.3, 0.6, 0.9, 0.99])
def test_every_truncation_is_detected(archive, fraction):
    content = pack()
    with pytest.raises(UserError, match="refused"):
        read_tar(archive(content[: int(fraction * len(content))]), WANTED)


def test_every_flipped_byte_is_detected_or_harmless(archive):
    content = pack()
    refused = 0
    for index in range(len(content)):
        flipped = content[:index] + bytes([content[index] ^ 0x55]) + content[index + 1 :]
        try:
            assert read_tar(archive(flipped), WANTED)["folder/wanted"] == b"content" * 1000
        except UserError:
            refused += 1
    # only gzip's own header (time, file name) can differ undetected
    assert refused >= len(content) - 20


def test_a_truncated_tar_inside_a_valid_gzip_is_detected(archive):
    content = gzip.compress(gzip.decompress(pack())[:1000])
    with pytest.raises(UserError, match="refused"):
        read_tar(archive(content), WANTED)


def test_an_archive_that_unpacks_to_too_much_is_refused(archive, monkeypatch):
    monkeypatch.setattr(archives, "ARCHIVE_LIMIT", 100_000)
    with pytest.raises(UserError, match="far more"):
        read_tar(archive(pack(plain("big", bytes(200_000)))), WANTED)


def test_trailing_bytes_without_end_are_refused(archive, monkeypatch):
    monkeypatch.setattr(archives, "ARCHIVE_LIMIT", 100_000)
    padded = gzip.decompress(pack(wanted=True)) + bytes(200_000)
    with pytest.raises(UserError, match="far more"):
        read_tar(archive(gzip.compress(padded)), WANTED)


def test_a_wanted_file_that_is_too_large_is_refused_before_it_is_read(archive, monkeypatch):
    monkeypatch.setattr(archives, "MEMBER_LIMIT", 6999)
    with pytest.raises(UserError, match="too large"):
        read_tar(archive(pack()), WANTED)


def test_single_files_are_limited_too(archive, monkeypatch):
    monkeypatch.setattr(archives, "MEMBER_LIMIT", 1000)
    assert read_gzip(archive(gzip.compress(bytes(1000)))) == bytes(1000)
    with pytest.raises(UserError, match="far more"):
        read_gzip(archive(gzip.compress(bytes(1001))))
    with pytest.raises(UserError, match="far more"):
        read_uncompressed(archive(bytes(1001)))


def test_no_archive_at_all(archive, tmp_path):
    with pytest.raises(UserError, match="refused"):
        read_tar(archive(b"<html>not result</html>"), WANTED)
    with pytest.raises(UserError, match="refused"):
        read_gzip(tmp_path / "missing.gz")
