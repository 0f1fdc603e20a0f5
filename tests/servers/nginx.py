"""nginx in front of a hub, configured as the guide says."""

import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.servers.processes import end, is_listening, start, wait_until

GUIDE = ROOT / "docs" / "guides" / "hub.md"
_MAIN = """daemon off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""


def is_installed() -> bool:
    """Whether this machine has nginx."""
    return shutil.which("nginx", path="/usr/sbin:/usr/bin") is not None


@contextmanager
def run_nginx(folder: Path, port: int, hub_url: str, blobs: Path) -> Iterator[None]:
    """nginx on a port, before the hub at `hub_url` whose blobs lie in a folder."""
    folder.mkdir()
    config, log = folder / "nginx.conf", folder / "nginx.log"
    config.write_text(_MAIN.format(folder=folder, server=_server(port, hub_url, blobs)))
    command = ["/usr/sbin/nginx", "-c", str(config), "-e", str(folder / "error.log")]
    nginx = start(command, log, folder=folder, dies_by=signal.SIGTERM)
    try:
        wait_until(lambda: is_listening(port), nginx, log, name="nginx")
        yield
    finally:
        end(nginx)


def _server(port: int, hub_url: str, blobs: Path) -> str:
    """The guide's block with this test's addresses, and without TLS."""
    found = re.search(r"```nginx\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    block = re.sub(r"listen [^;]*;", f"listen 127.0.0.1:{port};", found[1])
    block = re.sub(r"^ *ssl_[^;]*;\n", "", block, flags=re.MULTILINE)
    block = block.replace("http://127.0.0.1:8000/", f"{hub_url}/")
    assert "/srv/hub/blobs/" in block
    return block.replace("/srv/hub/blobs/", f"{blobs}/")
