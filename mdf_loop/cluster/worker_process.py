"""Main program of a local worker process: `python -m mdf_loop.cluster.worker_process`.

The process reads its settings from standard input as JSON, so that the key of the cluster is neither on a
command line nor in a file:

    address       address of the scheduler
    security      arguments of `distributed.Security`: certificate and key
    preload       module that is imported before the worker accepts tasks
    config        settings of Dask
    arguments     further arguments of `distributed.Worker`

The process ends after its scheduler.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import sys
from typing import Any


async def _serve(settings: dict[str, Any]) -> None:
    """Run a Dask worker until its scheduler ends."""
    distributed: Any = importlib.import_module("distributed")
    security = distributed.Security(**settings["security"])
    worker = distributed.Worker(settings["address"], security=security, **settings["arguments"])
    async with worker:
        await worker.finished()


def main() -> None:
    """Run a Dask worker with the settings from standard input."""
    settings = json.load(sys.stdin)
    import dask
    import distributed

    logging.getLogger(distributed.__name__).setLevel(logging.CRITICAL)
    importlib.import_module(settings["preload"])
    with dask.config.set(settings["config"]):
        asyncio.run(_serve(settings))


if __name__ == "__main__":
    main()
