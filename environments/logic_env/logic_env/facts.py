"""What is known of generators and data sets, read from the file of this name."""

import tomllib
from pathlib import Path

FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
