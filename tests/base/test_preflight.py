"""The rule of sizes: what is available, what is refused, and what the refusal says."""

import math
import resource
import sys

import pytest
from forked import MB, forked

from icgd.base.preflight import Part, available_memory, memory_limit, require_room, time_limit
from icgd.errors import IcgdError, InvalidParameter, TooLarge


class TestLimits:
    @pytest.mark.parametrize(
        ("text", "bytes"),
        [
            ("8GB", 8e9),
            ("500 MB", 5e8),
            ("1GiB", 2**30),
            ("1.5G", 1.5e9),
            ("123", 123.0),
            ("none", math.inf),
        ],
    )
    def test_the_environment_sets_the_memory(self, monkeypatch, text, bytes):
        monkeypatch.setenv("ICGD_MEMORY_LIMIT", text)
        assert memory_limit() == bytes

    @pytest.mark.parametrize("text", ["", "lots", "-3GB", "8XB"])
    def test_nonsense_is_refused(self, monkeypatch, text):
        monkeypatch.setenv("ICGD_MEMORY_LIMIT", text)
        with pytest.raises(InvalidParameter, match="a size such as 8GB"):
            memory_limit()

    @pytest.mark.parametrize("text", ["", "soon", "0", "-1", "nan"])
    def test_nor_is_a_time(self, monkeypatch, text):
        monkeypatch.setenv("ICGD_TIME_LIMIT", text)
        with pytest.raises(InvalidParameter, match="number of seconds"):
            time_limit()

    @pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
    def test_a_limit_of_the_process_counts(self):
        def work():
            raise RuntimeError(str(available_memory()))

        got = forked(work, memory=300 * MB)
        assert 200 * MB < float(got.message) <= 300 * MB
        assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


class TestRefusals:
    @pytest.fixture(autouse=True)
    def limits(self, monkeypatch):
        monkeypatch.setenv("ICGD_MEMORY_LIMIT", "1GB")
        monkeypatch.setenv("ICGD_TIME_LIMIT", "60")

    def test_what_fits_passes(self):
        require_room("It", [Part("a", 1, 4e8, 20.0), Part("b", 2, 5e8, 30.0)])

    def test_memory_adds_up_and_the_largest_part_is_to_blame(self):
        with pytest.raises(TooLarge) as caught:
            require_room("It", [Part("a", 17, 4e8), Part("b", 23, 7e8)])
        assert str(caught.value) == (
            "It takes about 1.1 GB of memory, most of it for `b` = 23, and 1 GB are available. Lower `b`; or "
            "set ICGD_MEMORY_LIMIT to the memory that may be used, such as 32GB, or to none."
        )

    def test_so_does_time(self):
        with pytest.raises(
            TooLarge, match="about 70 s of one core, most of it for `a` = 17; the limit"
        ):
            require_room("It", [Part("a", 17, 1.0, 40.0), Part("b", 23, 1.0, 30.0)])

    def test_integers_beyond_all_floats_have_a_message_too(self):
        with pytest.raises(TooLarge, match="EB of memory"):
            require_room("It", [Part("a", 10**400, 8 * 10**400)])

    def test_it_is_an_error_of_the_package_and_one_of_memory(self):
        assert issubclass(TooLarge, IcgdError)
        assert issubclass(TooLarge, MemoryError)
