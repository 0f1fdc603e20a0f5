"""How commands show what a check measured."""

from collections.abc import Mapping

from strop.cli.output import format_size


def cost_fields(measures: Mapping[str, float]) -> list[tuple[str, str]]:
    """What an import and the dependencies cost."""
    fields = []
    if (cpu_s := measures.get("import_cpu_s")) is not None:
        fields.append(("import", f"{cpu_s:.2f} s of processor time"))
    if (count := measures.get("dependency_count")) is not None:
        size = format_size(round(measures.get("dependency_bytes", 0.0)))
        missing = measures.get("missing_dependency_count", 0.0)
        told = f"{count:.0f} beyond Strop, {size} installed"
        fields.append(("dependencies", f"{told}; {missing:.0f} missing" if missing else told))
    return fields
