"""An environment as an installer leaves it, made of a module's text."""

from pathlib import Path


def install_module(folder: Path, module: str, code: str) -> Path:
    """Put a module with its metadata into a folder that goes on the import path."""
    name = module.replace("_", "-")
    info = folder / f"{module}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    point = f"[strop.environments]\n{name} = {module}:load_environment\n"
    (info / "entry_points.txt").write_text(point)
    (info / "RECORD").write_text("")
    return folder
