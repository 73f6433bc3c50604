"""The worker: runs replays under torch, in the interpreter of the code under test, and answers in JSON.

It imports torch and the standard library alone and needs no torchlint installed where it runs: the parent starts
`python -E -B …/worker/__main__.py [--jobs N] [--real]`, writes one request a line to its standard input and reads one
answer a line from its standard output, in whatever order they end. The first line it writes is the greeting:
`{"ready": true, "torch": "2.13.0", "python": "3.11.7", "accelerator": "cuda" | null, "forks": true, "seconds": 1.9}`.

A request
=========
Positions in a request are those of the text it carries (lines from 1, columns in characters from 0); lines in an
answer are those of the user's files, by way of `lines`.

| field | meaning |
| --- | --- |
| `id` | handed back with the answer |
| `source`, `path`, `lines` | the text to run; the file it stands for; `{"12": 40}`: its line 12 is the file's line 40. Lines that are missing have no place in the file (they are reported as 0); without `lines` both agree |
| `name` | `__name__` of the text, default `__main__` |
| `modules` | more modules by import: `[{"name", "source", "path", "lines", "package": false, "trusted": false}]`; a trusted one is not held to the policy |
| `imports` | top-level modules that may be imported beside those of `guard/policy.py` |
| `device` | `{"how": "simulated" or "real" or "absent", "kind": "cuda", "count": 1}`; absent: no simulator, accelerators hidden |
| `record` | kinds of events (see `simdevice/events.py`); null for all |
| `loops` | `[{"id", "line", "module": null, "iterations": 12, "then": "stop" or "break", "hot": true, "graph": false}]`: a `for` or `while` on that line ends after so many iterations in all; `stop` ends the replay. The hot one's iterations are those by which events are counted; `graph`: measure the autograd graph after each |
| `cap` | iterations that any other loop may run each time it is entered, default 200 |
| `watch` | what to look at, see below |
| `precision` | record the mixed-precision protocol; `{"underflow": 3}`: measure lost gradients in the first 3 backward passes |
| `argv`, `environment`, `seed` | `sys.argv`; environment variables; the seed of torch, numpy and random |
| `limits` | `{"wall": 10, "cpu": 10, "memory": 1073741824, "events": 4000}`: seconds, seconds, bytes, distinct events |

Entries of `watch`, `{"id", "what", "line", "column": null, "text": null, "module": null, "limit": 16, …}`:

| `what` | looks at | each record holds |
| --- | --- | --- |
| `call` | the call that starts there (`text` picks one of several, `x.to(device)`) | `receiver` before, `receiver_after`, `result`, `same` (the result is the receiver), `arguments` |
| `value` | the expression that starts there | `value` |
| `before`, `after` | `expression`, evaluated before or after the statement on that line | `value` |
| `reach` | whether the statement on that line is reached | nothing |

Every record has its `iteration`, or an `error` where the expression failed. `digest: true` adds figures of tensors
(norm, share of zeros, whether finite). Values are described as in `describe.py`: type, device, dtype, marks, …

In the text the name `__torchlint__` offers `standin(value, "mark")`: marks a value as a stand-in; use what it returns.
What is derived from it and placed by it carries the mark, and so do the events that it takes part in: `marks` of a
`mix` are those of the accused operand. `checkpoint(path, value, "cuda:0")` saves a checkpoint as such a machine would.

An answer
=========
| field | meaning |
| --- | --- |
| `id`, `status` | `ran`, `raised`, `refused` (by the policy), `crashed`, `timed out`; the last two with what was seen until then, if anything |
| `stopped` | why it ended early: the id of the loop that had its iterations, or `exit` |
| `exception` | `{"type", "message", "path", "line", "lines": [[path, line], … innermost last], "gap"}`; `gap`: torchlint's simulator failed, not the code |
| `refusals` | what the policy has against it: `[{"line", "reason"}]` |
| `events` | `[{"kind", "api", "path", "line", "via", "source", "target", "origins", "marks", "detail", "count", "by_iteration": {"0": 1}}]`, iteration 0 is before the hot loop |
| `sequence` | events of the precision protocol in program order: `[[iteration, index in events], …]` |
| `watched` | `{id: [record, …]}`; `unmatched`: ids for which the text has no such place |
| `loops` | `{id: {"iterations", "graph": [{"iteration", "nodes", "bytes"}]}}` |
| `precision` | `{"steps": […], "underflow": […]}`, see `precision.py` |
| `device` | `simulated cuda:0`, the real device's name, or `none` |
| `stdout`, `stderr` | their ends |
| `denied`, `layers` | what the guard rails refused while it ran; which layers were active |
| `seconds`, `megabytes`, `torch` | time of the replay, peak memory, torch's version |
"""
