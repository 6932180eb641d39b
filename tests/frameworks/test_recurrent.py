"""The language model: the same in every framework, and mutations are detected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import yaml
from tests.conftest import tiny_study_of_all_frameworks

from horizont.config.mutations import MUTATIONS
from horizont.config.system import FRAMEWORKS
from horizont.data.catalogue import DATASETS
from horizont.workflow.mutation_test import run_mutation_tests
from horizont.workflow.paths import Paths
from horizont.workflow.verify import TRACE_RUNS, EquivalenceChecker, checker_for

pytestmark = [pytest.mark.framework, pytest.mark.usefixtures("nothing_left")]

WORKLOAD = "lstm-ptb"
#: Instead of 10,000 words, whose table is most of the model.
WORDS = 500
#: All in one process. Other tests follow LeNet-5 through all of float32.
RUNS = [
    run
    for run in TRACE_RUNS
    if run.dtype == "float64"
    or (run.path == "plain" and run.perturbation in ("none", "weight_ulp"))
]


@pytest.fixture(scope="module", autouse=True)
def small_vocabulary() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DATASETS, "ptb", replace(DATASETS["ptb"], classes=WORDS))
        yield


@pytest.fixture(scope="module")
def study_root(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    paths = tiny_study_of_all_frameworks(tmp_path_factory)
    values = yaml.safe_load(paths.params.read_text())
    values["datasets"] = ["cifar10", "ptb"]
    values["equivalence"] = {
        "batch": 4,
        "at_steps": [1, 4],
        "workloads": ["lenet5-cifar10", WORKLOAD],
    }
    # Low enough for the gradients of this short training to be clipped.
    values["workloads"][WORKLOAD] |= {
        "time_steps": 10,
        "optimizer": {"learning_rate": 1.0, "clip_norm": 0.5},
    }
    paths.params.write_text(yaml.safe_dump(values))
    return paths


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def forward(weights: dict[str, np.ndarray], words: np.ndarray) -> np.ndarray:
    """Compute the scores of (examples, time steps) words from a zero state in NumPy."""
    values = weights["embedding.weight"][words]
    for name in ("lstm1", "lstm2"):
        hidden = cell = np.zeros((len(words), 200))
        outputs = []
        for step in range(words.shape[1]):
            gates = values[:, step] @ weights[f"{name}.input_weight"].T
            gates = gates + hidden @ weights[f"{name}.hidden_weight"].T + weights[f"{name}.bias"]
            enter, forget, candidate, leave = np.split(gates, 4, axis=1)
            cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
            hidden = sigmoid(leave) * np.tanh(cell)
            outputs.append(hidden)
        values = np.stack(outputs, axis=1)
    return values @ weights["fc.weight"].T + weights["fc.bias"]


def test_all_frameworks_train_the_same_language_model(study_root: Paths) -> None:
    checker = checker_for(WORKLOAD, study_root)
    traces = checker.train(dict.fromkeys(FRAMEWORKS, RUNS), "compared")
    certificate = checker.certificate(traces)
    assert certificate.ok, certificate.verdict
    assert {"state", "update"} <= {row["quantity"] for row in certificate.rows}
    exact = traces["pytorch"][TRACE_RUNS[0]]
    weights = {n[len("initial/0/") :]: v for n, v in exact.items() if n.startswith("initial/")}
    expected = forward(weights, first_words(checker))
    np.testing.assert_allclose(exact["logits/0/logits"], expected, rtol=0, atol=1e-14)


def first_words(checker: EquivalenceChecker) -> np.ndarray:
    tokens = np.load(checker.data_folder / "train_tokens.npy")
    return np.stack([tokens[row * ((len(tokens) - 1) // 4) :][:10] for row in range(4)])


def test_every_mutation_of_a_language_model_is_detected(study_root: Paths) -> None:
    only = {name for name, info in MUTATIONS.items() if info.requires == "text"}
    results = run_mutation_tests(WORKLOAD, study_root, only=only)
    assert len(results) == len(only)
    for row in results:
        assert row["detected"], row
        assert row["tensor"] in ("logits", "embedding.weight"), row
