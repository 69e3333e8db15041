"use strict";
// The story that every JavaScript client tells gaia-mcp-bash. `story.py` is the same for Python.

// Prints the id of the container it runs in: the engine mounts files from a folder of that name.
const CONTAINER_ID = "grep -om1 'containers/[0-9a-f]\\{64\\}' /proc/self/mountinfo | cut -d/ -f2";
// Leaves a mark and then runs for much longer than any test.
const LONG = "echo here > /tmp/running; sleep 300";
// Exits with 1 when there is none.
const COUNT_SLEEPS = "cat /proc/[0-9]*/comm | grep -cx sleep";

/** `callTool(params, options)` is the client's, whose version 1 takes the options elsewhere. */
async function tell(client, callTool, connected, mode) {
  const call = async (tool, args, options) => plain(await callTool({ name: tool, arguments: args }, options));
  const bash = (args, options) => call("bash", args, options);
  const facts = connected();
  if (mode === "hold") await hold(call);
  facts.tools = (await client.listTools()).tools.map((tool) => tool.name);
  let result = await bash({ command: "echo hi; exit 3" });
  facts.exit = { output: output(result), exit_code: result.structured.exit_code, is_error: result.is_error };
  await bash({ command: "export X=1; cd /tmp" });
  facts.state = output(await bash({ command: "echo $X $PWD" }));
  facts.stderr = output(await bash({ command: "echo out; echo err >&2" }));
  result = await bash({ command: "sleep 300", timeout: 1 });
  facts.timeout = { timed_out: result.structured.timed_out, is_error: result.is_error };
  result = await bash({ command: "head -c 100000 /dev/zero | tr '\\0' x" });
  facts.large = {
    total_bytes: result.structured.total_bytes,
    truncated: result.structured.truncated,
    fits_16_kib: Buffer.byteLength(result.text) <= 16 * 1024,
  };
  const calls = [0, 1, 2, 3].map((number) => bash({ command: `echo ${number}` }));
  facts.concurrent = (await Promise.all(calls)).map(output);
  const abort = new AbortController();
  const cancelled = bash({ command: LONG }, { signal: abort.signal }).then(
    () => "answered",
    () => "cancelled",
  );
  await running(call);
  abort.abort("the user gave up");
  if ((await cancelled) !== "cancelled") throw new Error("the call was answered before it was cancelled");
  facts.after_cancel = await afterCancel(bash);
  result = await bash({ command: 5 });
  facts.bad_argument = { is_error: result.is_error, text: result.text };
  facts.unknown_tool = await callTool({ name: "no_such_tool", arguments: {} }).then(
    () => null,
    (error) => error.code,
  );
  facts.container = output(await bash({ command: CONTAINER_ID }));
  return facts;
}

/** The next call works at once; the cancelled command may take a moment to end. */
async function afterCancel(bash) {
  for (let trial = 1; ; trial += 1) {
    const said = output(await bash({ command: `echo after; ${COUNT_SLEEPS}` }));
    if (said === "after\n0" || trial === 50) return said;
    await pause(100);
  }
}

function pause(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}

/** Says when a command runs, and waits for its end and more: the test kills this process. */
async function hold(call) {
  const calling = call("bash", { command: LONG, timeout: 2 });
  await running(call);
  console.log(JSON.stringify({ running: true }));
  await calling;
  // A promise alone does not keep the process alive.
  setInterval(() => {}, 1000);
  await new Promise(() => {});
}

/** Returns once the long command runs. */
async function running(call) {
  while ((await call("read_file", { path: "/tmp/running" })).is_error) {
    await pause(50);
  }
}

/** The text without the status line. */
function output(result) {
  return result.text.slice(0, result.text.lastIndexOf("\n"));
}

function plain(result) {
  if (result.content.length !== 1) throw new Error(`one content block expected: ${JSON.stringify(result)}`);
  return {
    text: result.content[0].text,
    structured: result.structuredContent,
    is_error: result.isError === true,
  };
}

/** `run(mode, era, target)`; the target is a URL, or `{command, args}` after `--`. */
async function main(run) {
  const [mode, era, ...target] = process.argv.slice(2);
  const [separator, command, ...args] = target;
  const facts = await run(mode, era, separator === "--" ? { command, args } : new URL(separator));
  console.log(JSON.stringify(facts));
}

module.exports = { main, tell };
