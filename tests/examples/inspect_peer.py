"""The work of `loop_bench.rs` by Inspect AI: SAMPLES CALLS AT_ONCE. Its model is scripted, its tool does nothing; both are
in its own process. Prints what it cost as the last line."""

import json
import resource
import sys
import time

begun = time.monotonic()

from inspect_ai import Task, eval as run
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.tool import tool

samples, calls, at_once = map(int, sys.argv[1:])


@tool
def echo():
    async def execute(text: str) -> str:
        """Says it again.

        Args:
            text: What to say.
        """
        return text

    return execute


def reply(input, tools, tool_choice, config):
    done = sum(1 for message in input if message.role == "tool")
    arguments = {"text": f"call {done} says something"}
    name, arguments = ("echo", arguments) if done < calls else ("submit", {"answer": "42"})
    output = ModelOutput.for_tool_call("mockllm/model", name, arguments)
    # Without it, a tokenizer is downloaded to count.
    output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
    return output


task = Task(
    dataset=[Sample(id=f"bench-{n:03}", input=f"Question {n:03} of the bench?", target="42") for n in range(samples)],
    solver=react(tools=[echo()]),
    scorer=match(),
)
model = get_model("mockllm/model", custom_outputs=reply)
[log] = run(task, model=model, max_samples=at_once, max_connections=at_once, display="none", log_dir="logs")
assert log.status == "success", log.error and log.error.message
assert log.results.scores[0].metrics["accuracy"].value == 1.0, log.results
used = resource.getrusage(resource.RUSAGE_SELF)
print(
    json.dumps(
        {
            "wall": time.monotonic() - begun,
            "cpu": used.ru_utime + used.ru_stime,
            "peak_kilobytes": used.ru_maxrss,
        }
    )
)
