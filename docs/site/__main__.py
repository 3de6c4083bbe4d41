"""Build the site with `python -m docs.site [folder [options of Sphinx]]`, by default in docs/_build/html."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.cmd.build import main

from docs.site.layout import write_source
from docs.site.pages import ROOT
from docs.site.pictures import EXTRA

CONF = Path(__file__).parent


def build(target: Path, options: Sequence[str]) -> int:
    """Build the site from scratch and return the exit code, which is 0 if there were no warnings.

    Args:
        target: Folder of the site.
        options: Additional options of Sphinx.
    """
    shutil.rmtree(target, ignore_errors=True)
    with TemporaryDirectory() as folder:
        source, doctrees = Path(folder) / "source", Path(folder) / "doctrees"
        write_source(source)
        _quiet_kernels(Path(folder) / "ipython")
        ours = ["-W", "--keep-going", "-q", "-c", str(CONF), "-d", str(doctrees)]
        ours += ["-D", f"html_extra_path={source / EXTRA}"]
        return main([*ours, *options, str(source), str(target)])


def _quiet_kernels(folder: Path) -> None:
    """Set the log level of notebook kernels to errors, so that the build prints no messages of kernels."""
    settings = folder / "profile_default" / "ipython_kernel_config.py"
    settings.parent.mkdir(parents=True)
    settings.write_text("c.IPKernelApp.log_level = 40\n")  # logging.ERROR
    os.environ["IPYTHONDIR"] = str(folder)


if __name__ == "__main__":
    folder, *options = sys.argv[1:] or [ROOT / "docs" / "_build" / "html"]
    sys.exit(build(Path(folder), options))
