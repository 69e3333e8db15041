"""The portable build of llama.cpp's server: serve.py WEIGHTS TEMPLATE CONTEXT_TOKENS. Prints its address, ends with SIGTERM."""

import signal
import sys
import threading

import xllamacpp

weights, template, context_tokens = sys.argv[1:]
parameters = xllamacpp.CommonParams()
parameters.model.path = weights
parameters.hostnames, parameters.port = ["127.0.0.1"], 0
parameters.n_ctx, parameters.n_parallel = int(context_tokens), 2
parameters.cpuparams.n_threads = 2
parameters.warmup, parameters.verbosity = False, 1
parameters.model_alias = {"smol"}
with open(template, encoding="utf-8") as file:
    parameters.chat_template = file.read()
server = xllamacpp.Server(parameters)
print("listening on", server.listening_address, flush=True)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
ended.wait()
