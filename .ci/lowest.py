"""Print the lowest versions that pyproject.toml allows, as constraints for pip: numpy==2.1."""

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"([\w.-]+)(?:>=|==)([\w.]+)(?:,<\w+)?")


def floors(text: str) -> list[str]:
    """Return the constraints in a pyproject.toml, including those of its extras."""
    project = tomllib.loads(text)["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    own_prefix = project["name"] + "["
    requirements = [
        r for r in chain(project["dependencies"], extras) if not r.startswith(own_prefix)
    ]
    matches = [REQUIREMENT.fullmatch(requirement) for requirement in requirements]
    without = [r for r, match in zip(requirements, matches, strict=True) if match is None]
    if without:
        sys.exit(f"no lowest version is stated for {', '.join(without)}")
    return [f"{match[1]}=={match[2]}" for match in matches if match is not None]


if __name__ == "__main__":
    sys.stdout.write("".join(f"{floor}\n" for floor in floors(PROJECT.read_text())))
