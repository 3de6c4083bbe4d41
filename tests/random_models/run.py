"""Command that judges random models over time, for manual and nightly runs.

python -m tests.random_models.run --first 0 --count 500      # resumable: a range of seeds
python -m tests.random_models.run --seeds 7 12
"""

from __future__ import annotations

from tests.random_models.models import random_model
from tests.random_models.verdicts import verdict
from tests.random_programs.run import main

KINDS = {"model": random_model}

if __name__ == "__main__":
    raise SystemExit(main(__doc__ or "", KINDS, verdict))
