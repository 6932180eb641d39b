"""Stand-ins: the same bytes for a seed, and exactly as difficult as stated."""

from dataclasses import replace

import numpy as np
import pytest

from horizont.data import synthetic, synthetic_text
from horizont.data.catalogue import DATASETS
from horizont.data.prepared import GENERATOR_VERSION, hash_array
from horizont.data.synthetic import (
    generate_images,
    image_distribution,
    minimum_contrast,
    prototype_fields,
    recover_classes,
    synthesise,
)
from horizont.data.synthetic_text import TextDistribution

IMAGES = ("cifar10", "cifar100", "fashion-mnist")
#: Labels of two examples, and eight pixels of the second one.
PINNED_IMAGES = {
    "cifar10": ([5, 8], [106, 101, 117, 131, 116, 123, 98, 125]),
    "cifar100": ([36, 7], [130, 135, 130, 113, 123, 124, 133, 145]),
    "fashion-mnist": ([3, 1], [197, 182, 168, 147, 153, 173, 181, 162]),
}
PINNED_TEXT = "6f73622a6786957974f3b2a8c00e2bd6749a3cec807d05ce6cd9fe8d223661af"


def sample(distribution, split, count):
    parts = zip(*generate_images(distribution, split, count), strict=True)
    return tuple(np.concatenate(part) for part in parts)


@pytest.mark.parametrize("name", DATASETS)
def test_a_seed_gives_the_same_bytes(name):
    splits = dict.fromkeys(DATASETS[name].splits, 700)
    one, other = (synthesise(DATASETS[name], splits, 0)[0] for _ in range(2))
    for key, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[key])


@pytest.mark.parametrize("name", IMAGES)
def test_images_do_not_change_without_a_new_generator_version(name):
    # Pixels may differ by one between machines: the Fourier transform is not exact.
    arrays = synthesise(DATASETS[name], {"train": 2, "test": 1}, 0)[0].arrays
    labels, pixels = PINNED_IMAGES[name]
    assert GENERATOR_VERSION == 2
    assert arrays["train_labels"].tolist() == labels
    np.testing.assert_allclose(arrays["train_images"][1, 0, 14, :8].astype(int), pixels, atol=1)


def test_the_text_does_not_change():
    splits = dict.fromkeys(DATASETS["ptb"].splits, 700)
    arrays = synthesise(DATASETS["ptb"], splits, 0)[0].arrays
    joined = np.concatenate([array.view(np.uint8) for array in arrays.values()])
    assert hash_array(joined) == PINNED_TEXT


@pytest.mark.parametrize("name", ["fashion-mnist", "ptb"])
def test_the_first_examples_do_not_depend_on_their_number(name):
    info = DATASETS[name]
    few, many = (synthesise(info, dict.fromkeys(info.splits, count), 0)[0] for count in (30, 800))
    for key, array in few.arrays.items():
        np.testing.assert_array_equal(array, many.arrays[key][:30])


@pytest.mark.parametrize("name", ["cifar10", "ptb"])
def test_seeds_and_splits_give_different_examples(name):
    info = DATASETS[name]
    splits = dict.fromkeys(info.splits, 100)
    one, other = (synthesise(info, splits, seed)[0].arrays for seed in (0, 1))
    part = "tokens" if info.kind == "text" else "images"
    assert not np.array_equal(one[f"train_{part}"], other[f"train_{part}"])
    assert not np.array_equal(one[f"train_{part}"], one[f"test_{part}"])


@pytest.mark.parametrize("name", IMAGES)
def test_the_latent_class_is_certain_and_nothing_is_clipped(name):
    distribution = image_distribution(DATASETS[name], 0)
    images, _, latent = sample(distribution, "test", 1000)
    np.testing.assert_array_equal(recover_classes(images, distribution), latent)
    assert images.min() >= 1
    assert set(latent) == set(range(distribution.classes))


@pytest.mark.parametrize("name", IMAGES)
def test_the_bayes_classifier_reaches_the_stated_accuracy(name):
    distribution = image_distribution(DATASETS[name], 3)
    images, labels, _ = sample(distribution, "train", 3000)
    accuracy = np.mean(recover_classes(images, distribution) == labels)
    deviation = np.sqrt(distribution.best_accuracy * distribution.label_noise / 3000)
    assert abs(accuracy - distribution.best_accuracy) < 4 * deviation


def test_flipped_labels_are_spread_evenly_over_the_other_classes():
    distribution = replace(image_distribution(DATASETS["fashion-mnist"], 0), label_noise=0.5)
    _, labels, latent = sample(distribution, "train", 9000)
    steps = np.bincount((labels - latent) % 10, minlength=10)
    assert abs(steps[0] - 4500) < 4 * np.sqrt(2250)
    assert np.abs(steps[1:] - 500).max() < 4 * np.sqrt(475)


@pytest.mark.parametrize("name", IMAGES)
def test_contrast_stays_far_above_what_certainty_needs(name):
    assert minimum_contrast(image_distribution(DATASETS[name], 0)) < 0.25


def test_too_weak_a_signal_is_refused():
    distribution = replace(image_distribution(DATASETS["fashion-mnist"], 0), signal=5)
    with pytest.raises(ArithmeticError, match="uncertain"):
        next(generate_images(distribution, "train", 10))


@pytest.mark.parametrize("name", IMAGES)
def test_nuisance_and_prototypes_share_no_mode(name):
    distribution = image_distribution(DATASETS[name], 0)
    is_signal = synthetic.signal_modes(distribution.size)
    gains = synthetic._nuisance_gains(distribution)
    assert (gains[is_signal] == 0).all()
    assert (gains[~is_signal] > 0).all()
    power = np.abs(np.fft.fft2(prototype_fields(distribution).astype(float))) ** 2
    assert power[..., ~is_signal].sum() < 1e-9 * power.sum()


def test_parts_of_an_image_have_the_stated_strength():
    distribution = image_distribution(DATASETS["cifar10"], 0)
    rms = np.sqrt((prototype_fields(distribution) ** 2).mean(axis=(2, 3, 4)))
    np.testing.assert_allclose(rms, distribution.signal, rtol=1e-5)
    nuisance = synthetic._filtered_noise(
        distribution, distribution.stream(9), 200, synthetic._nuisance_gains(distribution)
    )
    power = np.abs(np.fft.fft2(nuisance / distribution.size**2)) ** 2
    frequency = np.abs(np.fft.fftfreq(distribution.size, 1 / distribution.size))
    is_low = np.maximum(frequency[:, None], frequency) <= synthetic.BAND
    for modes, expected in ((is_low, distribution.clutter), (~is_low, distribution.noise)):
        measured = np.sqrt(power[..., modes].sum(axis=-1).mean())
        assert measured == pytest.approx(expected, rel=0.05)


def test_entropy_rate_agrees_with_the_full_matrix():
    distribution = TextDistribution(60, seed=5)
    follow = synthetic_text.SUCCESSOR_PERCENT / 100
    zipf = synthetic_text.zipf_distribution(distribution)
    table = (1 - follow) * zipf + follow * synthetic_text.successor_matrix(distribution).toarray()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    values, vectors = np.linalg.eig(table.T)
    stationary = np.real(vectors[:, np.argmax(np.real(values))])
    stationary /= stationary.sum()
    np.testing.assert_allclose(
        synthetic_text.stationary_distribution(distribution), stationary, rtol=1e-9
    )
    entropy = -(stationary[:, None] * table * np.log(table)).sum()
    assert synthetic_text.entropy_rate(distribution) == pytest.approx(entropy, rel=1e-12)


def test_the_true_model_reaches_the_stated_perplexity():
    distribution = TextDistribution(10_000, 0)
    words = synthetic_text.generate_text(distribution, "train", 400_000)
    probability, zipf = (
        synthetic_text.SUCCESSOR_PERCENT / 100,
        synthetic_text.zipf_distribution(distribution),
    )
    matrix = synthetic_text.successor_matrix(distribution)[words[:-1], words[1:]]
    follow = probability * np.asarray(matrix).ravel()
    surprise = -np.log((1 - probability) * zipf[words[1:]] + follow)
    # consecutive surprises are nearly independent; the factor 5 allows for the rest
    error = 5 * surprise.std() / np.sqrt(len(surprise))
    assert error < 0.03
    assert abs(surprise.mean() - np.log(synthetic_text.best_perplexity(distribution))) < error


def test_single_words_follow_the_stationary_distribution():
    distribution = TextDistribution(10_000, 1)
    words = synthetic_text.generate_text(distribution, "test", 300_000)
    stationary = synthetic_text.stationary_distribution(distribution)
    counts = np.bincount(words, minlength=distribution.words)[:50] / len(words)
    np.testing.assert_allclose(counts, stationary[:50], rtol=0.15)
    ranks = np.sort(stationary)[::-1]
    assert 5 < ranks[9] / ranks[99] < 15  # about 1 / rank, as Zipf says
