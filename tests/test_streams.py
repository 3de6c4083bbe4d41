"""Streams of random numbers: known answers, accuracy and statistical tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from mdf_loop import streams

KEYS = (0x13654E7CFE3C21B7, 0x298F4A5C6D18C29F)
COUNTERS = (0, 1, 2, 1000, 1 << 40)
WORDS = (
    *(0x6CA72E1E71D3A8A6, 0x5606A0DCB93C0813, 0x76A5D0CD627D8C02, 0x310C2D014509C82E),
    *(0x44C56624E623CD49, 0x49F9C15505B860F3, 0x33B11770EFABC4A3, 0x7A091531A6D46A7B),
    *(0x55AB7B03C0AAC0C, 0xE1E245483485FCC5),
)
UNIFORM = (
    *("0x1.b29cb879c74eap-2", "0x1.581a8372e4f02p-2", "0x1.da97433589f62p-2"),
    *("0x1.8861680a284e4p-3", "0x1.13159893988f2p-2", "0x1.27e7055416e1ap-2"),
    *("0x1.9d88bb877d5e4p-3", "0x1.e82454c69b51ap-2", "0x1.56adec0f02aa0p-6"),
    "0x1.c3c48a90690bfp-1",
)
NORMAL = (
    *("-0x1.8650a1905274ap-3", "-0x1.b1753c5509064p-2", "-0x1.779be0b061fabp-4"),
    *("-0x1.be7c9f871f0f9p-1", "-0x1.3bdf9783bc083p-1", "-0x1.1ce109ee9b84ap-1"),
    *("-0x1.ab6835ea88c5ap-1", "-0x1.deb2f2e435d2ap-5", "-0x1.04815c23b2ae1p+1"),
    "0x1.2fd627367cd29p+0",
)


KNOWN_SITE = 0xD05C11AD80C04D01


def words() -> np.ndarray:
    """Return the random words of two keys."""
    return streams.squares(np.array(COUNTERS), np.array(KEYS, np.uint64)[:, np.newaxis]).ravel()


def test_known_words() -> None:
    assert tuple(words().tolist()) == WORDS


def test_known_uniform_numbers() -> None:
    assert [float(u).hex() for u in streams.uniform(words())] == [
        float.fromhex(u).hex() for u in UNIFORM
    ]


def test_known_normal_numbers() -> None:
    numbers = streams.normal(streams.uniform(words()))
    np.testing.assert_array_equal(numbers, [float.fromhex(z) for z in NORMAL])


def test_normal_numbers_from_words_equal_those_from_uniform_numbers() -> None:
    some = np.random.default_rng(1).integers(0, 2**64, 100_000, np.uint64, endpoint=False)
    ends = np.array([0, 1, 2**12, 2**63 - 1, 2**63, 2**64 - 2**12, 2**64 - 1], np.uint64)
    for bits in (some, ends, words()):
        expected = streams.normal(streams.uniform(bits))
        assert streams.DISTRIBUTIONS["Normal"](bits).tobytes() == expected.tobytes()


def test_scalars_equal_array_elements() -> None:
    for counter, word in zip(COUNTERS, WORDS, strict=False):
        one = streams.squares(counter, KEYS[0])
        assert int(one) == word
        assert streams.normal(streams.uniform(one)).shape == ()


def test_uniform_numbers_are_never_0_or_1() -> None:
    ends = streams.uniform(np.array([0, 2**64 - 1], np.uint64))
    assert ends.tolist() == [2.0**-53, 1 - 2.0**-53]


def test_normal_numbers_equal_the_inverse_distribution_function() -> None:
    parts = np.concatenate([2.0 ** np.arange(51), np.linspace(0, 2**52 - 1, 200_001)])
    u = (np.floor(parts) + 0.5) * 2.0**-52
    z = streams.normal(u)
    assert np.max(np.abs(z - special.ndtri(u))) < 2.5e-9
    order = np.argsort(u)
    assert (np.diff(z[order]) >= 0).all()
    np.testing.assert_array_equal(streams.normal(1 - u), -z)


def test_logarithms() -> None:
    x = 2.0 ** np.linspace(-53, 53, 100_001)
    np.testing.assert_allclose(streams.log(x), np.log(x), rtol=0, atol=3e-14)


def test_exponential_functions() -> None:
    x = np.concatenate([np.linspace(-745, 709, 100_001), np.geomspace(1e-300, 1, 999)])
    x = np.concatenate([x, -x[-999:]])
    np.testing.assert_allclose(streams.expm1(x), np.expm1(x), rtol=4e-13)
    np.testing.assert_allclose(streams.exp(x), np.exp(x), rtol=4e-13, atol=1e-300)
    for function, ends in ((streams.exp, [0.0, 1.0, np.inf]), (streams.expm1, [-1.0, 0.0, np.inf])):
        with np.errstate(over="ignore"):
            assert function(np.array([-np.inf, 0.0, np.inf])).tolist() == ends


# --- keys -----------------------------------------------------------------------------------------


def test_sites_are_hashes_of_their_names() -> None:
    assert streams.site("graph.node.noise#0") == KNOWN_SITE
    assert streams.site("graph.node.noise#0") != streams.site("graph.node.noise#1")


def test_keys_have_the_form_that_squares_requires() -> None:
    keys = streams.keys(7, streams.site("g.n.x#0"), np.arange(20_000))
    assert len(set(keys.tolist())) == keys.size
    for key in keys[:2000].tolist():
        text = f"{key:016x}"
        assert "0" not in text
        assert len(set(text[:8])) == len(set(text[8:])) == 8
        assert key % 2 == 1


def test_keys_depend_on_seed_site_and_trial() -> None:
    keys = streams.keys(3, 5, np.arange(10))
    assert streams.keys(3, 5, 4) == keys[4]
    assert streams.keys(3, 5, np.arange(4, 7)).tolist() == keys[4:7].tolist()
    others = {int(streams.keys(*each)) for each in ((3, 5, 0), (4, 5, 0), (3, 6, 0), (3, 5, 1))}
    assert len(others) == 4


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
def test_extreme_seeds_have_valid_keys(seed: int) -> None:
    assert int(streams.keys(seed, 2**64 - 1, 10**12)) % 2 == 1


# --- statistics of fixed streams, so the results are reproducible ----------------------------------


def test_moments_and_distribution() -> None:
    z = streams.normal(streams.uniform(streams.squares(np.arange(200_000), KEYS[0])))
    for power, true, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(z**power) - true) < 4 * np.sqrt(variance / z.size)
    assert stats.kstest(z, "norm").pvalue > 1e-3


def test_streams_are_uncorrelated() -> None:
    count = 50_000
    keys = [
        *streams.keys(0, 1, np.arange(4)).tolist(),
        int(streams.keys(0, 2)),
        int(streams.keys(1, 1)),
    ]
    z = streams.normal(
        streams.uniform(streams.squares(np.arange(count), np.array(keys)[:, np.newaxis]))
    )
    products = np.corrcoef(np.concatenate([z, np.roll(z, 1, axis=1)])) - np.eye(12)
    assert np.max(np.abs(products)) < 5 / np.sqrt(count)


def test_bits_of_words_are_fair() -> None:
    random_words = streams.squares(np.arange(100_000), KEYS[1])
    ones = [
        (int(bit), np.mean((random_words >> np.uint64(bit)) & np.uint64(1))) for bit in range(64)
    ]
    assert all(abs(share - 0.5) < 5 * 0.5 / np.sqrt(random_words.size) for _, share in ones)
