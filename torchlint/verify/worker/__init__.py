"""The worker: runs replays under torch, in the interpreter of the code under test, and answers in JSON.

It imports torch and the standard library alone and needs no torchlint installed where it runs. The parent
starts `python -E -B …/worker/__main__.py [--jobs N] [--real] [--no-fork]`, writes one request a line to its
standard input and reads one answer a line from its standard output, in whatever order they end. The first
line that it writes is the greeting: `{"ready": true, "torch": "2.13.0", "python": "3.11.7", "accelerator":
"cuda" or null, "forks": true, "seconds": 1.9}`. `torchlint.verify.protocol` has dataclasses for both,
`torchlint.verify.pool` the parent's side.

A request
=========
Positions in a request are those of the text it carries (lines from 1, columns in characters from 0). Lines
in an answer are those of the user's files, by way of `lines`.

- `id`: handed back with the answer.
- `source`, `path`, `lines`: the text to run; the file that it stands for; `{"12": 40}` says that its line
  12 is the file's line 40. Lines that are missing there have no place in the file, and are reported as 0.
  Without `lines` both agree.
- `name`: `__name__` of the text, default `__main__`.
- `modules`: more modules, by import: `[{"name", "source", "path", "lines", "package": false, "trusted":
  false}]`. A trusted one is not held to the policy. They come before installed modules of that name.
- `imports`: top-level modules that may be imported beside those that `guard/policy.py` names.
- `device`: `{"how": "simulated", "real" or "absent", "kind": "cuda", "count": 1}`. Absent: accelerators are
  hidden, and nothing is simulated.
- `record`: the kinds of events to record (see `simdevice/events.py`); null for all.
- `loops`: `[{"id", "line", "module": null, "iterations": 12, "then": "stop", "hot": true, "graph":
  false}]`. The `for` or `while` on that line ends before it has run more iterations in all; `then`: `stop`
  the replay or `break` the loop. Events are counted by the iterations of the hot one. `graph`: measure the
  autograd graph after each iteration.
- `cap`: iterations that any other loop may run each time it is entered, default 200.
- `watch`: what to look at, see below.
- `precision`: record the mixed-precision protocol; `{"underflow": 3}`: also measure what gradients lose in
  the first 3 backward passes. See `precision.py`.
- `stage`: null, or what to set up around elastic code (`elastic.py`, `../standins`): `{"call": ["Class",
  "method"], "parameters": [[name, kind, "position" or "keyword", detail], …], "init": the same for the
  class, "calls": 3, "count": true, "no_grad": false, "missing": ["lightning"], "batches_on_device": false,
  "lines": [40], "words": {"dataset": "mnist"}}`. `count`: calls are iterations. `lines`: where no error is passed
  over. `words`: for arguments of the command line that have no default.
- `lenient`: mixed devices are reported and the code goes on, as if what was on the host had been moved, so that one
  fault does not hide the next. Under the simulator alone.
- `argv`, `environment`, `seed`: `sys.argv` from 1 on, environment variables, the seed of torch, numpy and
  random.
- `limits`: `{"wall": 10, "cpu": 10, "memory": 1073741824, "events": 4000}`: seconds, seconds, bytes beyond
  the worker's own, distinct events.

Entries of `watch` are `{"id", "what", "line", "column": null, "text": null, "module": null, "limit": 16, …}`:

- `call`: the call that starts there (`text` picks one of several: `x.to(device)`). Its records hold
  `result`, `arguments`, `keywords`, and for a method `receiver` (before), `receiver_after`, `same` (the
  result is the receiver).
- `value`: the expression that starts there. Its records hold `value`.
- `before`, `after`: `expression`, evaluated before or after the statement on that line: `value`, or `error`.
- `reach`: a record each time that the statement on that line is reached.

Every record has its `iteration`. `digest: true` adds figures of tensors (norm, share of zeros, whether all
are finite). How values are described: `describe.py`.

In the text, the name `__torchlint__` offers `standin(value, "mark")`, which marks a value as a stand-in:
use what it returns. What is derived from the value and placed by it carries the mark, and so do events:
`marks` of a `mix` are those of the accused operands. `checkpoint(path, value, "cuda:0")` saves a checkpoint
as a machine with that device would.

An answer
=========
- `id`, `status`: `ran`, `raised`, `refused` (by the policy), `crashed`, `timed out`. One that timed out
  tells what was seen until then, unless it had to be killed.
- `stopped`: why it ended early: the id of the loop that had its iterations, or `exit`.
- `exception`: `{"type", "message", "path", "line", "lines": [[path, line], …], "gap"}`, the innermost line
  last. `gap`: the simulator failed, not the code; nothing follows from such a replay.
- `refusals`: what the policy has against the text: `[{"line", "reason"}]`.
- `events`: `[{"kind", "api", "path", "line", "via", "source", "target", "origins", "marks", "detail",
  "count", "by_iteration": {"0": 1}}]`; iteration 0 is before the hot loop. `dropped`: how many were too
  many.
- `sequence`: the precision protocol in program order, `[[iteration, index in events], …]`.
- `watched`: `{id: [record, …]}`; `unmatched`: ids for which the text has no such place.
- `loops`: `{id: {"iterations", "graph": [{"iteration", "nodes", "bytes"}]}}`.
- `precision`: `{"steps", "underflow"}`, or null.
- `state`: of the module whose method was called, once it had been moved: `{"registered": names, "held": {name:
  devices} of what is not, "devices"}`; `"returned"`, the devices of what the last call returned; `"blame"`, the
  marks of what the last error came from that speaks of devices.
- `assumed`: what stand-ins assumed, in words. `skipped`: `[[line, why], …]`, statements that were left out.
- `device`: `simulated cuda:0`, the real device's name, or `none`.
- `stdout`, `stderr`: their ends. `signal`: what a crashed child died of.
- `denied`, `layers`: what the guard rails refused while it ran, and which of them were up.
- `seconds`, `megabytes`, `torch`: time of the replay, peak memory, torch's version.
"""
