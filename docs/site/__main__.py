"""`python -m docs.site [folder]`: builds the site, by default in docs/_build/html."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.cmd.build import main

from docs.site.layout import lay_out
from docs.site.pages import ROOT

CONF = Path(__file__).parent


def build(target: Path) -> int:
    """Build the site in a folder, anew; the exit code is 0 if there was no warning."""
    shutil.rmtree(target, ignore_errors=True)
    with TemporaryDirectory() as folder:
        source, doctrees = Path(folder) / "source", Path(folder) / "doctrees"
        lay_out(source)
        options = ["-W", "--keep-going", "-q", "-j", "auto", "-c", str(CONF), "-d", str(doctrees)]
        return main([*options, str(source), str(target)])


if __name__ == "__main__":
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "_build" / "html"
    sys.exit(build(target))
