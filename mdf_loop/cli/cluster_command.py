"""`mdf-loop cluster`: what concerns those who compute for others."""

from __future__ import annotations

import click

from mdf_loop.cli.show import show


@click.group("cluster")
def command() -> None:
    """Look at a cluster that computes sweeps, trials and fits."""


@command.command("check")
@click.argument("cluster", metavar="N|ADDRESS|FILE")
def check(cluster: str) -> None:
    """Try a cluster: what each worker has, and how fast it is."""
    from mdf_loop.api.cluster_check import check_workers
    from mdf_loop.cli.inputs import read_cluster
    from mdf_loop.cluster.form import form

    own, reports = form(), check_workers(read_cluster(cluster))
    show(f"here: {', '.join(f'{word} {said}' for word, said in own.items())}")
    for report in reports:
        apart = [f"{word} {said}" for word, said in report.form.items() if said != own[word]]
        told = f"DIFFERENT: {', '.join(apart)}" if apart else "as here"
        speed = f"{report.speed:,.0f} steps of a neuron in a second"
        show(f"{report.address}: {report.threads} threads, {told}; {speed}")
    wrong = sum(report.form != own for report in reports)
    total = sum(report.speed * report.threads for report in reports)
    show(f"{len(reports)} workers, {total:,.0f} steps of a neuron in a second together")
    if wrong:
        show(f"{wrong} of them would be refused: install the same versions on all machines")
        raise SystemExit(1)
