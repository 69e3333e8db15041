"""What the rehearsal model does for each sample: real commands that find the answer in the file.

No answer is written here. Every command runs in a bare Debian or python:3.11 image: Python's standard library, no network.
`${file}` is the attachment; the last line `ANSWER: ...` of the tool outputs is what gets submitted.
"""
from maker import level_1, level_2, level_3

TURNS = {**level_1.TURNS, **level_2.TURNS, **level_3.TURNS}
