import numpy as np
import tensorflow as tf

from keras_bert.text.random_bits import random_bits, random_permutation, seeds_of


def chi_square_is_small(counts, expected):
    """Whether the counts fit: chi-square has mean n - 1 and variance 2 (n - 1)."""
    degrees = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return abs(statistic - degrees) < 5 * np.sqrt(2 * degrees)


def test_the_sequence_is_that_of_splitmix64():
    # The first outputs for the seed 0, as published with the generator.
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    bits = random_bits(tf.zeros([1], tf.uint64), tf.range(3, dtype=tf.int64))
    assert bits[0].numpy().tolist() == expected


def test_counters_that_differ_little_give_unrelated_bits():
    # Seeds, epochs and records as they occur: small and consecutive.
    counters = np.array(
        [[s, e, r] for s in range(2) for e in range(8) for r in range(512)], np.int64
    )
    bits = random_bits(seeds_of(counters), tf.range(16, dtype=tf.int64)).numpy()
    assert len(np.unique(bits)) == bits.size
    for shift in (0, 20, 33, 47, 56):
        values = (bits >> np.uint64(shift)).astype(np.uint8)
        assert chi_square_is_small(np.bincount(values.ravel(), minlength=256), bits.size / 256)
        # Neighbouring records and neighbouring positions are independent.
        for pairs in ((values[1:], values[:-1]), (values[:, 1:], values[:, :-1])):
            joint = (pairs[0] >> 4).astype(int) * 16 + (pairs[1] >> 4)
            assert chi_square_is_small(np.bincount(joint.ravel(), minlength=256), joint.size / 256)


def test_each_bit_flips_with_each_counter():
    base = np.array([[3, 5, 7]], np.int64)
    flipped = np.repeat(base, 192, axis=0)
    for index in range(192):
        flipped[index, index // 64] ^= np.int64(np.uint64(1 << index % 64))
    one, other = seeds_of(base).numpy()[0], seeds_of(flipped).numpy()
    distances = np.array([int(one ^ x).bit_count() for x in other])
    assert abs(distances.mean() - 32) < 5 * 4 / np.sqrt(192)
    assert distances.min() > 8


def test_the_order_of_counters_matters():
    seeds = seeds_of(np.array([[1, 2], [2, 1], [0, 0], [0, 1]], np.int64)).numpy()
    assert len(set(seeds.tolist())) == 4


def test_permutations_are_permutations_and_uniform():
    firsts = []
    for seed in range(300):
        order = random_permutation(tf.constant(seed, tf.uint64), tf.constant(10, tf.int64)).numpy()
        assert sorted(order.tolist()) == list(range(10))
        firsts.append(order[0])
    assert chi_square_is_small(np.bincount(firsts, minlength=10), 30)
