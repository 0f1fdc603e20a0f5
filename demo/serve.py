"""Serve the hub that the demo filled: ``make hub``."""

import os

from demo.folder import demo_folder, newest_folder
from demo.hub import STROP, create_hub

PORT = "8000"


def main() -> None:
    """Become the hub's process, on the folder of this state of the tree or the last one used."""
    folder = demo_folder()
    if not (folder / "admin-token").exists():
        folder = newest_folder() or folder
    create_hub(folder)
    port = os.environ.get("STROP_PORT", PORT)
    print(f"The administrator's token is in {folder / 'admin-token'}")
    print(f"Catalog: http://127.0.0.1:{port}/   (Ctrl-C stops the hub)", flush=True)
    command = [str(STROP), "hub", "serve", "--data", str(folder / "hub"), "--port", port]
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
