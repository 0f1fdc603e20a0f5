"""The `strop` command."""


def main() -> None:
    """Run the command line."""
