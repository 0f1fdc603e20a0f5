"""The group that the modules beside this one add their commands to."""

from strop.cli.command_group import new_group

app = new_group("env", "Write, check, share and install environments.")
