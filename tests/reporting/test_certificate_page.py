"""The page on the certificates of the reference: what distinguishes them, and what they found."""

from __future__ import annotations

from typing import Any

from horizont.equivalence.certificate import EquivalenceCertificate
from horizont.reporting.figures.equivalence import (
    certificate_sentences,
    certificate_table,
    margin_figure,
)

ROW: dict[str, Any] = {"check": "frameworks", "quantity": "update", "dtype": "float64"}
ROW |= {"subject": "", "pair": "pytorch-jax", "step": 1, "tensor": "fc.bias"}
ROW |= {"ok": True, "is_evidence": True, "distance": 1e-15, "bound": 1e-12}


def certificate(variants: tuple[str, ...] = (), **row: Any) -> EquivalenceCertificate:
    fields = {"network": "resnet50", "dataset": "cifar10", "source": "real", "provenance": {}}
    return EquivalenceCertificate(
        workload="resnet50-cifar10",
        frameworks=("pytorch", "jax"),
        variants=variants,
        missing={},
        rows=(ROW | {"quantity": "gradient"}, ROW | row),
        **fields,
    )


def test_certificates_of_a_workload_differ_by_their_devices() -> None:
    both = [certificate(), certificate(("jax+cuda", "pytorch+tf32+cuda"))]
    assert list(certificate_table(both).cells["trained on"]) == ["CPU", "CPU and GPU"]
    assert "ResNet-50 on CIFAR-10 (CPU and GPU)" in margin_figure(both).svg()


def test_a_sentence_names_the_trainers_that_a_certificate_does_not_cover() -> None:
    diverged = {"check": "variant", "ok": False, "distance": 1e-8, "pair": "jax-jax+cuda"}
    found = certificate(("jax+cuda", "pytorch+cuda"), subject="jax+cuda", **diverged)
    summary, finding = certificate_sentences([certificate(), found]).items
    assert "1 of 2 certificates are equivalent" in summary.text
    assert not summary.is_good
    assert finding.text.startswith("ResNet-50 on CIFAR-10 (CPU and GPU). Not equivalent: jax-jax+")
    assert "All are of JAX on a GPU, whose times are" in finding.text
    (_, finding) = certificate_sentences([certificate(subject="", ok=False)]).items
    assert finding.text.endswith("No times on this workload are comparable.")
