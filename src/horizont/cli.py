"""The command line: one verb a line, and the one place where a user's mistake becomes a message."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from horizont.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        0 if all went well, 1 if something failed, 2 for a user's mistake, 130 for an interrupt.
    """
    # A polite end is an interrupt too, and so is a terminal that is closed, unless that is to be
    # ignored (`nohup`): everything that was started is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    arguments = build_parser().parse_args(argv)
    try:
        return int(arguments.do(arguments) or 0)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; what was finished is kept, the same command goes on", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Describe the commands."""
    parser = argparse.ArgumentParser(prog="horizont", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")

    repro = verbs.add_parser("repro", help="run the study, or what is not up to date of it")
    repro.add_argument("--profile", help="settings to write into params.yaml first")
    repro.add_argument("dvc", nargs="*", help="arguments for `dvc repro`, after --")
    repro.set_defaults(do=_repro)

    profile = verbs.add_parser("profile", help="write a profile's settings into params.yaml")
    profile.add_argument("name", nargs="?", help="nothing lists them")
    profile.set_defaults(do=_profile)

    prepare = verbs.add_parser("prepare", help="make a data set ready")
    prepare.add_argument("dataset")
    prepare.set_defaults(do=_prepare)

    measure = verbs.add_parser("measure", help="make the runs of an experiment that are missing")
    measure.add_argument("experiment")
    measure.add_argument("workload")
    measure.set_defaults(do=_run_experiment)

    prove = verbs.add_parser("prove", help="compare the frameworks on a workload")
    prove.add_argument("workload")
    prove.add_argument(
        "--fault", action="append", default=[], metavar="FRAMEWORK=FAULT", help="break one first"
    )
    prove.set_defaults(do=_verify)

    notebook = verbs.add_parser("notebook", help="run a notebook headlessly")
    notebook.add_argument("name")
    notebook.add_argument("-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    notebook.set_defaults(do=_notebook)

    tensorboard = verbs.add_parser("tensorboard", help="write TensorBoard's files of all runs")
    tensorboard.add_argument("--logdir", type=Path, help="where they go (default: tensorboard)")
    tensorboard.set_defaults(do=_tensorboard)

    sample = verbs.add_parser("sample", help="sample the resources of any command")
    sample.add_argument("--hz", type=float, default=5.0, help="samples a second (default: 5)")
    sample.add_argument("--out", type=Path, metavar="FOLDER", help="where the record goes")
    sample.add_argument("command", nargs=argparse.REMAINDER, help="the command, after --")
    sample.set_defaults(do=_monitor)
    claims = verbs.add_parser("claims", help="give a verdict on every published claim")
    claims.add_argument(
        "--check", action="store_true", help="hold the page of claims against the verdicts"
    )
    claims.set_defaults(do=_claims)

    compare = verbs.add_parser("compare", help="tell what changed between two folders of records")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    compare.add_argument(
        "--fail-above", type=float, metavar="FACTOR", help="exit 1 if a throughput fell by more"
    )
    compare.set_defaults(do=_compare)

    _add_recommend_parser(verbs)

    lab = verbs.add_parser("lab", help="open JupyterLab on the start notebook")
    lab.add_argument("jupyter", nargs="*", help="arguments for JupyterLab, after --")
    lab.set_defaults(do=_lab)
    book = verbs.add_parser("book", help="assemble the book from the executed notebooks")
    book.add_argument("--check", action="store_true", help="only follow the links of the built one")
    book.set_defaults(do=_book)

    for name, do, text in (
        ("summary", _summary, "show the results of the study in the terminal"),
        ("check", _check, "check the settings"),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.set_defaults(do=do)
    return parser


def _repro(arguments: argparse.Namespace) -> int:
    from horizont.workflow.paths import study_paths
    from horizont.workflow.profiles import apply_profile
    from horizont.workflow.repro import reproduce

    paths = study_paths()
    if arguments.profile:
        apply_profile(paths, arguments.profile)
    status = reproduce(paths, arguments.dvc)
    if status:
        print("the study is not complete; the same command goes on where it stopped")
        return status
    from horizont.workflow.results import show_summary

    return show_summary(paths)


def _profile(arguments: argparse.Namespace) -> None:
    from horizont.workflow.paths import study_paths
    from horizont.workflow.profiles import apply_profile, profile_names

    paths = study_paths()
    if arguments.name is None:
        print("\n".join(profile_names(paths)))
        return
    apply_profile(paths, arguments.name)
    print(f"params.yaml holds the profile {arguments.name}")


def _prepare(arguments: argparse.Namespace) -> None:
    from horizont.workflow.prepare import prepare_dataset

    about = prepare_dataset(arguments.dataset)
    print(f"{about.name}: {about.source}, from {about.origin}")


def _run_experiment(arguments: argparse.Namespace) -> int:
    from horizont.workflow.notebooks import forwarded_progress

    with forwarded_progress():
        from horizont.workflow.measure import run_experiment

        records = run_experiment(arguments.experiment, arguments.workload)
    return int(any(record.failed_unexpectedly for record in records))


def _verify(arguments: argparse.Namespace) -> int:
    from horizont.workflow.notebooks import forwarded_progress
    from horizont.workflow.verify import verify_workload

    faults = {}
    for given in arguments.fault:
        framework, _, fault = given.partition("=")
        if not fault:
            raise UserError("--fault", given, "FRAMEWORK=FAULT")
        faults[framework] = fault
    with forwarded_progress():
        proof = verify_workload(arguments.workload, mutations=faults)
    print(proof.verdict)
    return int(not proof.ok)


def _notebook(arguments: argparse.Namespace) -> int:
    from horizont.workflow.notebooks import NotebookFailed, run_notebook

    try:
        run_notebook(arguments.name, dict(arguments.p))
    except NotebookFailed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 2 if failure.error == "UserError" else 1
    return 0


def _tensorboard(arguments: argparse.Namespace) -> None:
    from horizont.workflow.paths import study_paths
    from horizont.workflow.tensorboard import write_eventfiles

    paths = study_paths()
    logdir: Path = arguments.logdir or paths.root / "tensorboard"
    found = write_eventfiles(paths, logdir)
    print(f"{found.written} runs written, {found.kept} unchanged, {found.without} without scalars")
    print(f"to look at them: tensorboard --logdir {logdir}")


def _monitor(arguments: argparse.Namespace) -> int:
    from horizont.workflow.monitor import monitor_command

    command = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    return monitor_command(command, arguments.out, arguments.hz)


def _claims(arguments: argparse.Namespace) -> None:
    from horizont.workflow.paths import study_paths
    from horizont.workflow.results import check_claims, show_claims

    if arguments.check:
        check_claims(study_paths())
        print("the page says what the verdicts say")
    else:
        show_claims(study_paths())


def _compare(arguments: argparse.Namespace) -> int:
    from horizont.workflow.compare import compare_records

    return compare_records(arguments.before, arguments.after, arguments.fail_above)


def _add_recommend_parser(subparsers: Any) -> None:
    """Describe the question."""
    advise = subparsers.add_parser("advise", help="which system to take, from the records at hand")
    advise.add_argument("--network", default="", help="by name, such as resnet18")
    advise.add_argument("--weights", type=float, default=float("nan"), help="or by its size")
    advise.add_argument("--workers", type=int, default=1)
    advise.add_argument("--threads", type=int, default=1, help="of each worker")
    help_link = "rate of each host's link"
    advise.add_argument("--link", dest="rate_mbit", type=float, metavar="MBIT", help=help_link)
    help_objective = "throughput, time to loss, memory, or survival"
    advise.add_argument("--objective", default="throughput", help=help_objective)
    advise.set_defaults(do=_recommend)


def _recommend(arguments: argparse.Namespace) -> int:
    from horizont.workflow.paths import study_paths
    from horizont.workflow.results import show_recommendation

    asked = ("network", "weights", "workers", "threads", "rate_mbit", "objective")
    return show_recommendation({name: getattr(arguments, name) for name in asked}, study_paths())


def _book(arguments: argparse.Namespace) -> None:
    from horizont.workflow.book import assemble_book, check_site
    from horizont.workflow.paths import study_paths

    if arguments.check:
        report = check_site(study_paths())
        print("\n".join(report.outside))
        print(f"{report.followed} addresses lead somewhere; {len(report.outside)} lead outside")
        return
    print(f"the report: {assemble_book(study_paths())}")


def _summary(arguments: argparse.Namespace) -> int:
    del arguments
    from horizont.workflow.paths import study_paths
    from horizont.workflow.results import show_summary

    return show_summary(study_paths())


def _check(arguments: argparse.Namespace) -> None:
    del arguments
    from horizont.workflow.check import load_study
    from horizont.workflow.paths import study_paths

    study = load_study(study_paths())
    print(f"the settings are in order: profile {study.profile}, {', '.join(study.study)}")


def _lab(arguments: argparse.Namespace) -> None:
    from horizont.workflow.lab import lab_command
    from horizont.workflow.paths import study_paths

    command = lab_command(study_paths(), arguments.jupyter)
    # Replaces this process: Ctrl-C goes to JupyterLab, which asks and ends its kernels.
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
