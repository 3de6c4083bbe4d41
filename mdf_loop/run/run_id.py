"""Unique ids of runs: the start time and random digits."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from typing import Any

_RUN_ID_PATTERN = re.compile(r"[\w-]{1,64}", re.ASCII)


def new_run_id() -> str:
    """Return a unique id of a run, for example `20261123-012011-9f3c2a71`."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def describe_run(content: Any) -> str:
    """Return the id of a run as text for messages, such as `run 20261123-012011-9f3c2a71`.

    The id may be invalid.
    """
    is_valid_id = isinstance(content, str) and _RUN_ID_PATTERN.fullmatch(content)
    return f"run {content}" if is_valid_id else "a run without a name"
