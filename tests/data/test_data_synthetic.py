"""The stand-ins: the same bytes for a seed, and exactly as hard as they say."""

from dataclasses import replace

import numpy as np
import pytest

from horizont.data import fourier, synthetic
from horizont.data.catalogue import DATASETS
from horizont.data.prepared import hash_array
from horizont.data.sources import no_progress
from horizont.data.synthetic import (
    TextDistribution,
    generate_images,
    image_distribution,
    minimum_contrast,
    prototypes,
    recover_classes,
    synthesise,
    text_distribution,
)

IMAGES = ("cifar10", "cifar100", "fashion-mnist")
PINNED = {
    "cifar10": "28df2b58b0ca62f6fcf28d52cab224532ac709099b0134092d06b1f460112a7a",
    "cifar100": "50dfa5232f9ceae8462d52f01d4f3eda798e831994874702ee4a05e6468be6d2",
    "fashion-mnist": "c54ace1ffe3de740c7f519c5b499e0be90e29f6b4ae23b0e1a1d0dbb21788c8f",
    "ptb": "6f73622a6786957974f3b2a8c00e2bd6749a3cec807d05ce6cd9fe8d223661af",
}


def sample(law, split, count):
    parts = zip(*generate_images(law, split, count), strict=True)
    return tuple(np.concatenate(part) for part in parts)


@pytest.mark.parametrize("name", DATASETS)
def test_the_bytes_are_the_same_on_every_machine(name):
    splits = dict.fromkeys(DATASETS[name].splits, 700)
    arrays = synthesise(DATASETS[name], splits, 0, no_progress).content.arrays
    joined = np.concatenate([array.ravel().view(np.uint8) for array in arrays.values()])
    assert hash_array(joined) == PINNED[name]


@pytest.mark.parametrize("name", ["fashion-mnist", "ptb"])
def test_the_first_examples_do_not_depend_on_how_many_there_are(name):
    info = DATASETS[name]
    few, many = (
        synthesise(info, dict.fromkeys(info.splits, count), 0, no_progress).content
        for count in (30, 800)
    )
    for key, array in few.arrays.items():
        np.testing.assert_array_equal(array, many.arrays[key][:30])


@pytest.mark.parametrize("name", ["cifar10", "ptb"])
def test_seeds_and_splits_give_different_examples(name):
    info = DATASETS[name]
    splits = dict.fromkeys(info.splits, 100)
    one, other = (synthesise(info, splits, seed, no_progress).content.arrays for seed in (0, 1))
    part = "tokens" if info.kind == "text" else "images"
    assert not np.array_equal(one[f"train_{part}"], other[f"train_{part}"])
    assert not np.array_equal(one[f"train_{part}"], one[f"test_{part}"])


@pytest.mark.parametrize("name", IMAGES)
def test_the_latent_class_is_certain_and_nothing_is_clipped(name):
    law = image_distribution(DATASETS[name], 0)
    images, _, latent = sample(law, "test", 1000)
    np.testing.assert_array_equal(recover_classes(images, law), latent)
    assert images.min() >= 1
    assert set(latent) == set(range(law.classes))


@pytest.mark.parametrize("name", IMAGES)
def test_the_bayes_classifier_reaches_the_stated_accuracy(name):
    law = image_distribution(DATASETS[name], 3)
    images, labels, _ = sample(law, "train", 3000)
    accuracy = np.mean(recover_classes(images, law) == labels)
    deviation = np.sqrt(law.best_accuracy * law.label_noise / 3000)
    assert abs(accuracy - law.best_accuracy) < 4 * deviation


def test_flipped_labels_are_spread_evenly_over_the_other_classes():
    law = replace(image_distribution(DATASETS["fashion-mnist"], 0), flips=0.5)
    _, labels, latent = sample(law, "train", 9000)
    steps = np.bincount((labels - latent) % 10, minlength=10)
    assert abs(steps[0] - 4500) < 4 * np.sqrt(2250)
    assert np.abs(steps[1:] - 500).max() < 4 * np.sqrt(475)


@pytest.mark.parametrize("name", IMAGES)
def test_contrast_stays_far_above_what_certainty_needs(name):
    assert minimum_contrast(image_distribution(DATASETS[name], 0)) < 0.25


def test_too_weak_a_signal_is_refused():
    law = replace(image_distribution(DATASETS["fashion-mnist"], 0), signal=5)
    with pytest.raises(ArithmeticError, match="uncertain"):
        next(generate_images(law, "train", 10))


@pytest.mark.parametrize("size", [28, 32])
def test_the_basis_is_orthonormal_and_the_signal_modes_agree_with_the_fft(size):
    unit = 1 << 20
    single = np.zeros((size * size, size, size), np.int64)
    single.reshape(size * size, -1)[np.diag_indices(size * size)] = unit
    fields = fourier.synthesise(single).reshape(size * size, -1) / unit
    gram = fields @ fields.T / size**2
    np.testing.assert_allclose(gram, np.eye(size * size), atol=2e-4)
    energy = np.abs(np.fft.fft2(fields.reshape(-1, size, size))) ** 2
    inside = energy[:, fourier.signal_spectrum(size)].sum(1) / energy.sum((1, 2))
    np.testing.assert_allclose(inside, fourier.signal_modes(size).ravel(), atol=1e-6)


@pytest.mark.parametrize("name", IMAGES)
def test_sums_stay_exact_in_float64(name):
    law = image_distribution(DATASETS[name], 0)
    weights = fourier.nuisance_weights(law.size, law.clutter * 1024, law.noise * 1024)
    largest = 127 * weights.sum() + np.abs(prototypes(law)).sum(axis=(-2, -1)).max()
    assert largest < 2**23
    assert largest * 2 * 4.0**fourier.BITS < 2**53


def test_prototypes_have_the_stated_strength():
    law = image_distribution(DATASETS["cifar10"], 0)
    fields = fourier.synthesise(prototypes(law)) / 1024
    rms = np.sqrt((fields**2).mean(axis=(2, 3, 4)))
    np.testing.assert_allclose(rms, law.signal, rtol=1e-3)


def test_entropy_rate_agrees_with_the_full_matrix():
    law = TextDistribution(60, seed=5)
    share = synthetic.SUCCESSOR_PERCENT / 100
    fresh = synthetic.zipf_distribution(law)
    table = (1 - share) * fresh + share * synthetic.successor_matrix(law).toarray()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    values, vectors = np.linalg.eig(table.T)
    stationary = np.real(vectors[:, np.argmax(np.real(values))])
    stationary /= stationary.sum()
    np.testing.assert_allclose(synthetic.stationary_distribution(law), stationary, rtol=1e-9)
    entropy = -(stationary[:, None] * table * np.log(table)).sum()
    assert synthetic.entropy_rate(law) == pytest.approx(entropy, rel=1e-12)


def test_the_true_model_reaches_the_stated_perplexity():
    law = text_distribution(DATASETS["ptb"], 0)
    words = synthetic.generate_text(law, "train", 400_000)
    share, fresh = synthetic.SUCCESSOR_PERCENT / 100, synthetic.zipf_distribution(law)
    follow = synthetic.successor_matrix(law)[words[:-1], words[1:]]
    surprise = -np.log((1 - share) * fresh[words[1:]] + share * np.asarray(follow).ravel())
    # consecutive surprises hardly depend on each other; 5 leaves room for what they do
    error = 5 * surprise.std() / np.sqrt(len(surprise))
    assert error < 0.03
    assert abs(surprise.mean() - np.log(synthetic.best_perplexity(law))) < error


def test_single_words_follow_the_stationary_law():
    law = text_distribution(DATASETS["ptb"], 1)
    words = synthetic.generate_text(law, "test", 300_000)
    law_of_words = synthetic.stationary_distribution(law)
    counts = np.bincount(words, minlength=law.words)[:50] / len(words)
    np.testing.assert_allclose(counts, law_of_words[:50], rtol=0.15)
    ranks = np.sort(law_of_words)[::-1]
    assert 5 < ranks[9] / ranks[99] < 15  # about 1 / rank, as Zipf says
