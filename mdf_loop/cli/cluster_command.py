"""`mdf-loop cluster`: inspect a cluster of workers."""

from __future__ import annotations

import click

from mdf_loop.cli.show import show


@click.group("cluster")
def command() -> None:
    """Test clusters of worker processes, which compute sweeps, trials and fits."""


@command.command("check")
@click.argument("cluster", metavar="N|ADDRESS|FILE")
def check(cluster: str) -> None:
    """Print the package versions and the speed of each worker of a cluster."""
    from mdf_loop.api.cluster_check import check_workers
    from mdf_loop.cli.inputs import read_cluster
    from mdf_loop.cluster.environment import environment_versions

    own_versions, reports = environment_versions(), check_workers(read_cluster(cluster))
    show(f"here: {', '.join(f'{package} {version}' for package, version in own_versions.items())}")
    for report in reports:
        version_differences = [
            f"{package} {version}"
            for package, version in report.library_versions.items()
            if version != own_versions[package]
        ]
        version_comparison = (
            f"DIFFERENT: {', '.join(version_differences)}" if version_differences else "as here"
        )
        speed_text = f"{report.steps_per_second:,.0f} steps of a neuron in a second"
        show(f"{report.address}: {report.thread_count} threads, {version_comparison}; {speed_text}")
    mismatch_count = sum(report.library_versions != own_versions for report in reports)
    total_speed = sum(report.steps_per_second * report.thread_count for report in reports)
    show(f"{len(reports)} workers, {total_speed:,.0f} steps of a neuron in a second together")
    if mismatch_count:
        show(
            f"{mismatch_count} of them would be refused: install the same versions on all machines"
        )
        raise SystemExit(1)
