"""The command line, and the one place where a `UserError` becomes a message."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from horizont.errors import (
    FAILED,
    INTERRUPTED,
    USER_ERROR,
    NotebookFailed,
    RunFailed,
    UserError,
)
from horizont.monitoring.process_control import collect_rarely, interrupt_on_signals
from horizont.wording import counted
from horizont.workflow.paths import Paths, study_paths

#: Exit status of `diff` for a mistake of the user, as 2 says that there is no verdict.
WRONG_USE = 3

#: Commands that execute runs.
_RESUMING = ("repro", "run", "experiment", "notebook")

#: What typer raises for a command line that it cannot parse; it exports only subclasses.
_UsageError: Any = typer.BadParameter.__base__

#: Errors of a pipe that was closed, and of a disk that is full or cannot be written.
_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EROFS)

app = typer.Typer(
    name="horizont",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(help="Show, choose and check the settings.", no_args_is_help=True)
app.add_typer(config_app, name="config")

Experiment = Annotated[str, typer.Argument(help="an experiment of params.yaml")]
Workload = Annotated[str, typer.Argument(help="a workload of params.yaml")]
PassThrough = Annotated[list[str] | None, typer.Argument(help="arguments to pass on, after --")]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    interrupt_on_signals()
    if argv is None:  # a process of its own
        collect_rarely()
        _replace_closed_streams()
    try:
        status = int(app(argv, prog_name=app.info.name, standalone_mode=False) or 0)
        if status == INTERRUPTED:  # to which typer turns a Ctrl-C
            raise KeyboardInterrupt
        return status
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return USER_ERROR
    except (RunFailed, NotebookFailed) as failure:  # a notebook is saved with its error
        print(f"error: {failure}", file=sys.stderr)
        return USER_ERROR if getattr(failure, "error", "") == "UserError" else FAILED
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else app.info.name
        from horizont.workflow.option_values import wrong_value

        reason = wrong_value(error) or error.format_message().strip().removesuffix(".")
        if "\n" in reason:  # the help, as no command was given
            error.show()
        else:
            print(f"error: {reason} (see `{command} --help`)", file=sys.stderr)
        return WRONG_USE if context and context.info_name == "diff" else USER_ERROR
    except (KeyboardInterrupt, typer.Abort):
        command = next(iter(sys.argv[1:] if argv is None else argv), "")
        resumes = "; finished runs are preserved, and the same command resumes"
        with suppress(OSError):  # its terminal may be closed
            print(f"\ninterrupted{resumes if command in _RESUMING else ''}", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.errno not in _OF_OUTPUT:
            raise
        if error.errno != errno.EPIPE:
            place = error.filename or "the output"
            print(f"error: {place}: {error.strerror}", file=sys.stderr)
        return FAILED


def _replace_closed_streams() -> None:
    """Replace a standard stream that the caller has closed, as by ``>&-``, by the null device.

    Its descriptor must not stay free: the next file that is opened would get the output of all
    processes that are started.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the lowest free descriptor, which is that of the closed stream.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"horizont {metadata.version('horizont')}")
        raise typer.Exit


@app.callback(help="Which framework trains this network fastest on these machines, and why?")
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="print the version"),
    ] = False,
) -> None:
    """Handle the options of the program itself."""
    del version


@app.command()
def repro(
    dvc: PassThrough = None,
    profile: Annotated[str, typer.Option(help="write this profile to params.yaml first")] = "",
) -> int:
    """Run the stages of the study that are not up to date. Arguments go to `dvc repro`."""
    from horizont.workflow.repro import WRONG_OPTION, reproduce

    paths = study_paths()
    if profile:
        _use_profile(paths, profile)
    if status := reproduce(paths, dvc or ()):
        if status == WRONG_OPTION:
            return USER_ERROR
        print("the study is incomplete; the same command resumes it")
        return status
    from horizont.workflow.results import show_summary

    return show_summary(paths)


@config_app.command("list")
def config_list() -> None:
    """List the profiles."""
    from horizont.workflow.profiles import profile_descriptions

    for name, description in profile_descriptions(study_paths()).items():
        print(f"{name:14} {description}")


@config_app.command("use")
def config_use(
    name: Annotated[str, typer.Argument(help="a profile")],
    launcher: Annotated[
        str, typer.Option(help="starts the distributed runs, such as slurm or command")
    ] = "",
) -> None:
    """Write the settings of a profile to params.yaml."""
    _use_profile(study_paths(), name, launcher)
    where = f", its distributed runs started by {launcher}" if launcher else ""
    print(f"params.yaml now has the settings of the profile {name}{where}")


@config_app.command("sbatch")
def config_sbatch(
    minutes: Annotated[int, typer.Option(help="time limit of a job, above 4")] = 120,
    partition: Annotated[str, typer.Option(help="of the cluster; its default if empty")] = "",
) -> None:
    """Write horizont.sbatch, the batch script that runs the study of params.yaml under Slurm."""
    from horizont.workflow.batch_script import write_batch_script

    path = write_batch_script(study_paths(), minutes, partition)
    print(f"{path.name} is written. Next: sbatch {path.name}")


@config_app.command("check")
def config_check() -> None:
    """Check params.yaml against the data sets, networks and frameworks."""
    from horizont.workflow.check import load_study, skipped_runs

    study = load_study(study_paths())
    print(
        f"params.yaml is valid: profile {study.profile}, experiments {', '.join(study.experiments)}"
    )
    for reason, number in skipped_runs(study).most_common():
        print(f"{counted(number, 'run')} would be skipped on this machine: {reason}")


@app.command()
def doctor(
    seconds: Annotated[float, typer.Option(help="of measuring the noise")] = 20.0,
) -> int:
    """Report whether this machine can measure now, and how small a difference."""
    from horizont.workflow.doctor import diagnose

    return diagnose(study_paths(), seconds)


@app.command()
def chaos(
    seed: Annotated[int, typer.Option(help="decides all cases")] = 1,
    cases: Annotated[int, typer.Option(min=1, help="number of cases")] = 20,
    case: Annotated[int | None, typer.Option(min=1, help="only this one, to replay it")] = None,
    launcher: Annotated[
        list[str] | None,
        typer.Option(help="local, emulated, emulated_agents, command (by default all), or slurm"),
    ] = None,
) -> int:
    """Kill, pause and starve processes of short runs, and check what is left of them."""
    from horizont.workflow.chaos.command import run_chaos

    numbers = range(1, cases + 1) if case is None else [case]
    return 0 if run_chaos(study_paths(), seed, numbers, launcher or ()) else FAILED


@app.command()
def prepare(dataset: Annotated[str, typer.Argument(help="a data set")]) -> None:
    """Download or generate a data set, and convert it."""
    from horizont.workflow.prepare import ignored_images, limited_splits, prepare_dataset

    description = prepare_dataset(dataset)
    unit = "words" if description.kind == "text" else "images"
    sizes = ", ".join(f"{split} {count:,}" for split, count in description.splits.items())
    print(f"{description.name}: {description.source} data ({description.origin}), {unit}: {sizes}")
    for split, (size, setting) in limited_splits(description).items():
        used = description.splits[split]
        print(f"{split}: the first {used:,} of {size:,} {unit}, as {setting} limits them")
    if description.duplicates:
        print(f"{description.duplicates:,} of the test images are training images, too")
    if ignored := ignored_images(dataset):
        names = ", ".join(map(str, ignored[:3])) + (", ..." if len(ignored) > 3 else "")
        print(f"{counted(len(ignored), 'image')} outside the classes ignored: {names}")


@app.command()
def run(
    experiment: Experiment,
    workload: Annotated[str, typer.Argument(help="one of its workloads; by default all")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the plan of each run")] = False,
) -> int:
    """Execute the runs of an experiment that have no record yet."""
    from horizont.workflow.experiment import print_plans, run_on_workloads
    from horizont.workflow.outcome import show_outcome
    from horizont.workflow.progress import forwarded_progress

    if dry_run:
        print_plans(experiment, workload, study_paths())
        return 0
    with forwarded_progress():
        records = run_on_workloads(experiment, workload, study_paths())
    show_outcome(experiment, records, study_paths())
    is_measured = any(record.result.status != "skipped" for record in records)
    has_failed = any(record.failed_unexpectedly for record in records)
    return 0 if is_measured and not has_failed else FAILED


@app.command()
def verify(
    workload: Workload,
    mutate: Annotated[
        list[str] | None,
        typer.Option(metavar="FRAMEWORK=MUTATION", help="apply a seeded defect first"),
    ] = None,
) -> int:
    """Verify that the frameworks train a workload equivalently."""
    from horizont.workflow.outcome import show_certificate
    from horizont.workflow.progress import forwarded_progress
    from horizont.workflow.verify import verify_workload

    mutations = _pairs("--mutate", "FRAMEWORK=MUTATION", mutate)
    with forwarded_progress():
        certificate = verify_workload(workload, mutations=mutations)
    show_certificate(certificate, study_paths(), is_mutated=bool(mutations))
    return 0 if certificate.ok else FAILED


@app.command()
def experiment(
    name: Experiment,
    reference: Annotated[
        bool, typer.Option("--reference", help="only the notebooks, on its packed records")
    ] = False,
) -> None:
    """Execute the missing runs of an experiment, and its notebooks."""
    from horizont.workflow.experiment import execute_experiment, execute_reference_pages

    _print_pages((execute_reference_pages if reference else execute_experiment)(name))


@app.command()
def views(name: Experiment) -> None:
    """Execute the notebooks of the views of an experiment."""
    from horizont.workflow.experiment import execute_views

    _print_pages(execute_views(name))


@app.command()
def notebook(
    name: Annotated[str, typer.Argument(help="path below notebooks/, without .ipynb")],
    parameter: Annotated[
        list[str] | None,
        typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="set a parameter"),
    ] = None,
) -> None:
    """Execute a notebook headlessly."""
    from horizont.workflow.notebooks import check_parameters, run_notebook

    parameters = _pairs("--parameter", "NAME=VALUE", parameter)
    check_parameters(parameters, study_paths())
    _print_pages([run_notebook(name, parameters)])


@app.command()
def watch(
    run: Annotated[str, typer.Argument(help="part of a run's path; by default the newest")] = "",
    records: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="records; by default of the study")
    ] = None,
    interval: Annotated[float, typer.Option(metavar="SECONDS", help="between two updates")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="print the state once and exit")] = False,
) -> None:
    """Show the state of a run: stages, steps, CPU, memory, log."""
    from horizont.workflow.watch import watch_study

    if records is not None and not records.is_dir():
        raise UserError("--records", str(records), "a folder that exists")
    watch_study(records or study_paths().all_records, run, interval, once=once)


@app.command()
def tensorboard(
    logdir: Annotated[Path | None, typer.Option(help="folder; by default `tensorboard`")] = None,
    follow: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="repeat at this interval")
    ] = None,
) -> None:
    """Write TensorBoard event files of all runs."""
    from horizont.workflow.publish import export_tensorboard

    export_tensorboard(study_paths(), logdir, follow)


@app.command(context_settings={"ignore_unknown_options": True})
def monitor(
    command: Annotated[list[str], typer.Argument(help="the command, after --")],
    hz: Annotated[float, typer.Option(help="samples per second")] = 5.0,
    out: Annotated[Path | None, typer.Option(metavar="FOLDER", help="for the samples")] = None,
) -> int:
    """Run a command, and sample the resources of its processes."""
    from horizont.workflow.monitor import monitor_command

    return monitor_command(command, out, hz)


@app.command()
def claims(
    check: Annotated[bool, typer.Option("--check", help="compare the page with them")] = False,
) -> None:
    """Print the verdicts on the published claims."""
    from horizont.workflow.results import check_claims, show_claims

    if check:
        check_claims(study_paths())
        print("the page of claims agrees with the verdicts")
    else:
        show_claims(study_paths())


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(help="a folder of records, of any depth")],
    after: Annotated[Path, typer.Argument(help="another one")],
    fail_above: Annotated[
        float | None,
        typer.Option(metavar="FACTOR", help="exit 1 if a throughput dropped by more"),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="print every row, and the machines")
    ] = False,
) -> int:
    """Compare records of two machines, versions or settings."""
    from horizont.workflow.compare import compare_records

    return compare_records(before, after, fail_above, show_all=show_all)


@app.command()
def diff(  # noqa: PLR0917 - typer calls it by keyword
    a: Annotated[str, typer.Argument(help="PREFIX:module:callable, PREFIX:file.py:callable")],
    b: Annotated[str, typer.Argument(help="likewise, or onnx:FILE.onnx or dump:FOLDER")],
    batch: Annotated[
        str, typer.Option("--input", help="2x3x96x96, integers 2x16:1000, or a file .npy")
    ] = "",
    args_a: Annotated[str, typer.Option(metavar="NAME=VALUE,...", help="of A's callable")] = "",
    args_b: Annotated[str, typer.Option(metavar="NAME=VALUE,...", help="of B's callable")] = "",
    python_a: Annotated[str, typer.Option(metavar="PATH", help="interpreter of A")] = "",
    python_b: Annotated[str, typer.Option(metavar="PATH", help="interpreter of B")] = "",
    pairs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="pairs of layers; written if missing")
    ] = None,
    accept: Annotated[
        list[str] | None, typer.Option(help="a difference by its name, which does not count")
    ] = None,
    ddp: Annotated[
        int, typer.Option(metavar="N", help="train B in N processes, each with a part of the batch")
    ] = 1,
    time: Annotated[bool, typer.Option("--time", help="and which one is faster, and why")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="of one run")] = 300.0,
    memory: Annotated[float, typer.Option(metavar="GIB", help="of each side")] = 8.0,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the whole report")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the report as a page, .html")
    ] = None,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a program of the first difference")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write a training step of both, .json[.gz]")
    ] = None,
) -> int:
    """Compare two models: what differs, what repairs it, and which one is faster.

    Exit 0: the same, 1: not the same, 2: cannot be said, 3: wrong use.
    """
    from horizont.modeldiff.command import compare_and_print

    try:
        return compare_and_print(
            a, b, batch, args_a=args_a, args_b=args_b, python_a=python_a, python_b=python_b,
            pairs=pairs, accept=accept or (), request_s=timeout, memory_gib=memory, time=time,
            out=json, page_path=page, ddp=ddp, script=script, trace=trace,
        )  # fmt: skip
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG_USE


@app.command()
def pack(
    experiment: Experiment,
    workloads: Annotated[list[str] | None, typer.Argument(help="only these")] = None,
) -> None:
    """Pack the records of an experiment into reports/reference."""
    from horizont.workflow.reference import pack_experiment

    print(pack_experiment(experiment, study_paths(), workloads or ()))


@app.command()
def unpack(
    experiment: Annotated[str, typer.Argument(help="an experiment of reports/reference")],
    folder: Annotated[str, typer.Argument(help="for the records, in a new folder there")],
) -> None:
    """Restore packed records to folders."""
    from horizont.workflow.reference import unpack_experiment

    if not folder:  # the path of an empty string is the current folder
        raise UserError("folder", folder, "a folder; the current one is .")
    number = unpack_experiment(experiment, Path(folder), study_paths())
    print(f"{Path(folder, experiment)}: {number} records, checked by SHA-256")


@app.command()
def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help="only these")] = None,
) -> int:
    """Compare the study with the reference; exit 1 if a number or verdict differs."""
    from horizont.workflow.reproduce import show_reproduction

    return show_reproduction(study_paths(), experiments or ())


@app.command()
def recommend(  # noqa: PLR0917 - typer calls it by keyword
    network: Annotated[str, typer.Option(help="a name, such as resnet18")] = "",
    weights: Annotated[float, typer.Option(help="or a number of weights")] = float("nan"),
    workers: int = 1,
    threads: Annotated[int, typer.Option(help="of each worker")] = 1,
    link: Annotated[
        float | None, typer.Option(metavar="MBIT", help="rate of the link of each host")
    ] = None,
    objective: Annotated[
        str, typer.Option(help="throughput, time to loss, memory, or fault tolerance")
    ] = "throughput",
) -> int:
    """Recommend a system, from the most similar records."""
    from horizont.workflow.results import show_recommendation

    return show_recommendation(
        study_paths(),
        network=network,
        weights=weights,
        workers=workers,
        threads=threads,
        rate_mbit=link,
        objective=objective,
    )


@app.command()
def book(
    check: Annotated[bool, typer.Option("--check", help="check the book that exists")] = False,
) -> None:
    """Build the book from the executed notebooks."""
    from horizont.workflow.book import assemble_book, check_book

    if check:
        check_book(study_paths())
        print("the book loads nothing from the network")
        return
    print(f"the report: {assemble_book(study_paths())}")


@app.command()
def summary() -> int:
    """Print the results of the study."""
    from horizont.workflow.results import show_summary

    return show_summary(study_paths())


@app.command()
def lab(jupyter: PassThrough = None) -> None:
    """Open JupyterLab on the start notebook."""
    from horizont.workflow.lab import lab_command

    command = lab_command(study_paths(), jupyter or ())
    # Replaces this process, so that Ctrl-C goes to JupyterLab, which asks and ends its kernels.
    os.execv(command[0], command)


def _print_pages(pages: Sequence[Path]) -> None:
    for page in pages:
        print(page.relative_to(study_paths().root))


def _use_profile(paths: Paths, name: str, launcher: str = "") -> None:
    """Write a profile to params.yaml; settings that the user has edited are copied first."""
    from horizont.workflow.profiles import apply_profile, save_edited_settings

    def copy_edited_settings() -> None:
        if copy := save_edited_settings(paths):
            print(f"params.yaml had settings of your own, which are in {copy.name} now")

    apply_profile(paths, name, launcher, before_writing=copy_edited_settings)


def _pairs(option: str, form: str, values: Sequence[str] | None) -> dict[str, str]:
    """Split the values of an option at their first equals sign."""
    pairs = {}
    for given in values or ():
        name, _, value = given.partition("=")
        if not value:
            raise UserError(option, given, form)
        pairs[name] = value
    return pairs


if __name__ == "__main__":
    sys.exit(main())
