"""Reads a log with Inspect's own reader and prints what a test compares, as JSON."""

import json
import sys

from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

path = sys.argv[1]
log = read_eval_log(path)
header = read_eval_log(path, header_only=True)
summaries = read_eval_log_sample_summaries(path)
one = read_eval_log_sample(path, id=log.samples[0].id, epoch=1)
json.dump(
    {
        "status": log.status,
        "model": log.eval.model,
        "asked": header.results.total_samples,
        "accuracy": header.results.scores[0].metrics["accuracy"].value,
        "one": one.id == log.samples[0].id,
        "summaries": [[summary.id, summary.message_count, summary.completed] for summary in summaries],
        "samples": [
            {
                "id": sample.id,
                "epoch": sample.epoch,
                "roles": [message.role for message in sample.messages],
                "calls": sum(len(getattr(message, "tool_calls", None) or []) for message in sample.messages),
                "images": sum(
                    part.type == "image"
                    for message in sample.messages
                    if isinstance(message.content, list)
                    for part in message.content
                ),
                "replies": sum(event.event == "model" for event in sample.events),
                "results": sum(event.event == "tool" for event in sample.events),
                "target": sample.target,
                "answer": sample.output.completion,
                "scores": {name: score.value for name, score in (sample.scores or {}).items()},
                "input_tokens": sum(usage.input_tokens for usage in sample.model_usage.values()),
                "level": sample.metadata["level"],
            }
            for sample in log.samples
        ],
    },
    sys.stdout,
)
