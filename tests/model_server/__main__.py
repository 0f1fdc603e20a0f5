"""``python -m tests.model_server``: prints its base URL, then serves until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys

from tests.model_server.sampling import POLICIES
from tests.model_server.server import ModelServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--policy", choices=sorted(POLICIES), default="reverse")
    parser.add_argument("--model", default="tiny", help="the name that it lists")
    parser.add_argument("--until-eof", action="store_true", help="stop when stdin closes")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(arguments))


async def _serve(arguments: argparse.Namespace) -> None:
    policy = POLICIES[arguments.policy]
    async with ModelServer(policy, model=arguments.model, port=arguments.port) as server:
        server.is_recording = False
        print(server.base_url, flush=True)
        if arguments.until_eof:
            await asyncio.to_thread(sys.stdin.read)
        else:
            await server.run_forever()


if __name__ == "__main__":
    main()
