"""Servers inside a sandbox are reached from outside, where the backend can."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from strop.errors import SandboxError
from strop.sandbox import Backend, Sandbox, SandboxSpec
from strop.sandbox.backends.agent import Agent
from strop.sandbox.backends.remote import RemoteTransport
from tests.sdk.sandbox.conftest import NAMESPACED, TIERS, TIGHT, Tier, open_tier

SERVER_PORT = 8123
ECHO = """
import socket
listener = socket.create_server(("127.0.0.1", 8123))
print("up", flush=True)
while True:
    caller, _ = listener.accept()
    total = 0
    while chunk := caller.recv(65536):
        total += len(chunk)
        caller.sendall(chunk)
    caller.sendall(b"%d" % total)
    caller.close()
"""
# A server has a thread for each caller, and threads reserve far more memory than they use.
ROOMY = replace(TIGHT, address_space_bytes=0, pid_count=64)
SPEC = SandboxSpec(limits=ROOMY, network="loopback")


@pytest.fixture(params=[*NAMESPACED, "remote"], ids=str)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    is_remote = request.param == "remote"
    local = await open_tier(TIERS[0] if is_remote else request.param)
    if not is_remote:
        async with local, await local.create(SPEC) as created:
            yield created
        return
    agent = Agent(local.transport, "a token that nobody guesses")
    port = await agent.start("127.0.0.1", 0)
    transport = await RemoteTransport.connect("127.0.0.1", port, "a token that nobody guesses")
    async with Backend(transport) as remote, await remote.create(SPEC) as created:
        yield created
    await agent.close()


async def _serve_files(sandbox: Sandbox) -> None:
    await sandbox.write("site/page.txt", b"from inside")
    command = f"cd site && exec python3 -u -m http.server {SERVER_PORT} --bind 127.0.0.1"
    server = await sandbox.start(command)
    assert b"Serving HTTP" in await server.read_line()


async def test_a_web_server_inside_answers_browsers_outside(sandbox: Sandbox) -> None:
    await _serve_files(sandbox)
    async with await sandbox.expose(SERVER_PORT) as exposed:
        address = f"http://{exposed.host}:{exposed.port}"
        async with httpx.AsyncClient(timeout=60) as client:
            page = await client.get(f"{address}/page.txt")
            missing = await client.get(f"{address}/no")
            many = await asyncio.gather(*(client.get(f"{address}/page.txt") for _ in range(40)))

    assert (page.status_code, page.text) == (200, "from inside")
    assert missing.status_code == 404
    assert {answer.text for answer in many} == {"from inside"}


async def test_large_streams_pass_both_ways_and_end_one_by_one(sandbox: Sandbox) -> None:
    server = await sandbox.start(["python3", "-c", ECHO])
    assert await server.read_line() == b"up\n"
    sent = bytes(range(256)) * 20_000
    async with await sandbox.expose(SERVER_PORT) as exposed:
        reader, writer = await asyncio.open_connection(exposed.host, exposed.port)
        received = asyncio.create_task(reader.read(-1))
        writer.write(sent)
        await writer.drain()
        writer.write_eof()
        echoed = await asyncio.wait_for(received, 60)
        writer.close()

    assert echoed == sent + str(len(sent)).encode()


async def test_where_nothing_listens_callers_are_hung_up_on(sandbox: Sandbox) -> None:
    async with await sandbox.expose(1) as exposed:
        reader, writer = await asyncio.open_connection(exposed.host, exposed.port)

        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def test_a_stopped_sandbox_is_reached_no_more(sandbox: Sandbox) -> None:
    await _serve_files(sandbox)
    exposed = await sandbox.expose(SERVER_PORT)
    reader, writer = await asyncio.open_connection(exposed.host, exposed.port)
    await sandbox.stop()

    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection(exposed.host, exposed.port)


async def test_a_port_of_one_sandbox_leads_to_no_other(sandbox: Sandbox) -> None:
    await _serve_files(sandbox)
    async with await open_tier(TIERS[0]) as backend, await backend.create(SPEC) as other:
        exposed = await other.expose(SERVER_PORT)
        async with httpx.AsyncClient(timeout=60) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get(f"http://{exposed.host}:{exposed.port}/page.txt")


async def test_a_sandbox_without_a_network_has_no_ports() -> None:
    async with await open_tier(TIERS[0]) as backend, await backend.create() as sandbox:
        with pytest.raises(SandboxError, match="loopback"):
            await sandbox.expose(SERVER_PORT)


@pytest.mark.parametrize("tier", [t for t in TIERS if not t.has_namespaces], ids=str)
async def test_a_tier_without_namespaces_says_that_it_has_no_ports(tier: Tier) -> None:
    async with await open_tier(tier) as backend, await backend.create() as sandbox:
        assert not backend.capabilities.has_ports
        with pytest.raises(SandboxError, match="has no ports"):
            await sandbox.expose(SERVER_PORT)
