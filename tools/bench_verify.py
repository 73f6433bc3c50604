"""Measures the verifier: `python -m tools.bench_verify [--python PATH] [--replays N] [--jobs N]`.

Prints how long a worker takes to start, what a replay costs after that, and how much memory both hold.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path

from torchlint.verify.pool import Pool
from torchlint.verify.protocol import Loop, Request, Watch

#: One epoch of training, with a discarded move, a wait in each step, and a mix at the end.
TRAINING = """
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda")
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(48, 16), torch.randint(0, 3, (48,)))
for x, y in torch.utils.data.DataLoader(data, batch_size=8, shuffle=True):
    y.to(device)
    loss = F.cross_entropy(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
model(x)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="the interpreter to verify in; the current one by default")
    parser.add_argument("--replays", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    small = Request("import torch\ntorch.ones(1).to('cuda').item()\n")
    whole = Request(
        TRAINING.strip() + "\n",
        loops=(Loop("epoch", 9, 6, then="break"),),
        watch=(Watch("move", "call", 10),),
    )
    with Pool(arguments.python, arguments.jobs) as pool:
        started = time.perf_counter()
        version = pool.torch_version()
        print(
            f"start-up: {time.perf_counter() - started:.2f} s (torch {version}, load {os.getloadavg()[0]:.1f})"
        )
        for name, request in (("one line", small), ("a training epoch", whole)):
            measure(pool, name, [request] * arguments.replays)
        print(f"memory of the server: {server_memory(pool):.0f} MB")


def measure(pool: Pool, name: str, requests: list[Request]) -> None:
    """Run them all and say what one costs: time until the last answer, and processor time of all processes."""
    list(pool.replay(requests[:2]))
    started, used = time.perf_counter(), processor_time(pool)
    answers = [answer for _, answer in pool.replay(requests)]
    wall = (time.perf_counter() - started) / len(requests) * 1e3
    cpu = (processor_time(pool) - used) / len(requests) * 1e3
    inside = sum(a.seconds for a in answers) / len(answers) * 1e3
    peak = max(a.megabytes for a in answers)
    print(
        f"{name}: {wall:.0f} ms a replay, {cpu:.0f} ms of processor time, {inside:.0f} ms of it in the code"
    )
    print(f"  peak memory of a child: {peak:.0f} MB")


def _pid(pool: Pool) -> int:
    process = pool._servers[False]._process
    assert process is not None
    return process.pid


def processor_time(pool: Pool) -> float:
    """Seconds that the server, its children that have ended, and this process have used."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    fields = Path(f"/proc/{_pid(pool)}/stat").read_text().rpartition(")")[2].split()
    ticks = sum(int(f) for f in fields[11:15])
    return own.ru_utime + own.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def server_memory(pool: Pool) -> float:
    """Resident megabytes of the server process."""
    rows = Path(f"/proc/{_pid(pool)}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    main()
