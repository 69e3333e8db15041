"""The story that every Python client tells gaia-mcp-bash. `story.cjs` is the same for JavaScript."""

import asyncio
import json
import sys

# Prints the id of the container it runs in: the engine mounts files from a folder of that name.
CONTAINER_ID = r"grep -om1 'containers/[0-9a-f]\{64\}' /proc/self/mountinfo | cut -d/ -f2"
# Leaves a mark and then runs for much longer than any test.
LONG = "echo here > /tmp/running; sleep 300"
# Exits with 1 when there is none.
COUNT_SLEEPS = "cat /proc/[0-9]*/comm | grep -cx sleep"


async def tell(client, mode):
    """`client` has `connected()`, `tools()`, `call(tool, arguments)`, `call_cancelled(arguments, running)` and `error_code(tool)`."""
    facts = await client.connected()
    if mode == "hold":
        await hold(client)
    facts["tools"] = await client.tools()
    result = await client.call("bash", {"command": "echo hi; exit 3"})
    facts["exit"] = {
        "output": output(result),
        "exit_code": result["structured"]["exit_code"],
        "is_error": result["is_error"],
    }
    await client.call("bash", {"command": "export X=1; cd /tmp"})
    facts["state"] = output(await client.call("bash", {"command": "echo $X $PWD"}))
    facts["stderr"] = output(await client.call("bash", {"command": "echo out; echo err >&2"}))
    result = await client.call("bash", {"command": "sleep 300", "timeout": 1})
    facts["timeout"] = {"timed_out": result["structured"]["timed_out"], "is_error": result["is_error"]}
    result = await client.call("bash", {"command": "head -c 100000 /dev/zero | tr '\\0' x"})
    facts["large"] = {
        "total_bytes": result["structured"]["total_bytes"],
        "truncated": result["structured"]["truncated"],
        "fits_16_kib": len(result["text"].encode()) <= 16 * 1024,
    }
    calls = [client.call("bash", {"command": f"echo {number}"}) for number in range(4)]
    facts["concurrent"] = [output(result) for result in await asyncio.gather(*calls)]
    await client.call_cancelled({"command": LONG}, running(client))
    facts["after_cancel"] = await after_cancel(client)
    result = await client.call("bash", {"command": 5})
    facts["bad_argument"] = {"is_error": result["is_error"], "text": result["text"]}
    facts["unknown_tool"] = await client.error_code("no_such_tool")
    facts["container"] = output(await client.call("bash", {"command": CONTAINER_ID}))
    return facts


async def after_cancel(client):
    """The next call works at once; the cancelled command may take a moment to end."""
    for _trial in range(50):
        said = output(await client.call("bash", {"command": f"echo after; {COUNT_SLEEPS}"}))
        if said == "after\n0":
            break
        await asyncio.sleep(0.1)
    return said


async def hold(client):
    """Says when a command runs, and waits for its end, which never comes: the test kills this process."""
    calling = asyncio.create_task(client.call("bash", {"command": LONG, "timeout": 2}))
    await running(client)
    print(json.dumps({"running": True}), flush=True)
    await calling
    await asyncio.Event().wait()


async def running(client):
    """Returns once the long command runs."""
    while (await client.call("read_file", {"path": "/tmp/running"}))["is_error"]:
        await asyncio.sleep(0.05)


def output(result):
    """The text without the status line."""
    return result["text"].rpartition("\n")[0]


def plain(result):
    """What matters of a result of the SDKs, which differ in their spelling between versions."""
    fields = result.model_dump(by_alias=True)
    [content] = fields["content"]
    return {
        "text": content["text"],
        "structured": fields.get("structuredContent"),
        "is_error": bool(fields.get("isError")),
    }


def main(run):
    """`run(mode, era, target)`; the target is a URL, or `--` and the server's command line."""
    mode, era, *target = sys.argv[1:]
    facts = asyncio.run(run(mode, era, target[1:] if target[0] == "--" else target[0]))
    print(json.dumps(facts), flush=True)
