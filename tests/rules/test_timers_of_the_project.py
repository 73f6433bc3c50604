"""DEV305: timers that the project writes itself."""

from __future__ import annotations

import pytest
from checking import expect

CONTEXT = """
import time
from contextlib import contextmanager
import torch
@contextmanager
def timer(name):
    start = time.time()
    yield
    {wait}
    print(name, time.time() - start){mark}
class Timer:
    def __enter__(self):
        self.start = time.perf_counter()
        return self
    def __exit__(self, *error):
        {wait}
        self.took = time.perf_counter() - self.start{other}
def use(net: torch.nn.Module, x):
    net.cuda()
    x = x.cuda()
    with {used}:
        {work}
"""


@pytest.mark.parametrize("used", ["timer('net')", "Timer()", "Timer() as t"])
def test_a_timer_around_device_work_is_reported_where_it_ends(used: str) -> None:
    marks = {"mark": "  # <-", "other": ""} if used.startswith("timer") else {"mark": "", "other": "  # <-"}
    expect(CONTEXT.format(used=used, work="net(x)", wait="pass", **marks), "DEV305")


@pytest.mark.parametrize(
    "work, wait",
    [("net(x)", "torch.cuda.synchronize()"), ("net(x).item()", "pass"), ("len(x)", "pass")],
)
@pytest.mark.parametrize("used", ["timer('net')", "Timer()"])
def test_a_timer_that_waits_or_times_no_device_work_is_silent(work: str, wait: str, used: str) -> None:
    expect(CONTEXT.format(used=used, work=work, wait=wait, mark="", other=""), "DEV305")


DECORATOR = """
import time
import torch
def timed(function):
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        print(time.perf_counter() - start){mark}
        return result
    return wrapper
@timed
def run(net: torch.nn.Module, x):
    net.cuda()
    return net(x.cuda()){read}
"""


def test_a_decorator_that_times_device_work_is_reported() -> None:
    expect(DECORATOR.format(mark="  # <-", read=""), "DEV305")
    expect(DECORATOR.format(mark="", read=".tolist()"), "DEV305")


CALLED = """
import time
import torch
def timed(function, *args, rounds=30):
    begin = time.time()
    for _ in range(rounds):
        function(*args)
    return (time.time() - begin) / rounds{mark}
def main(device):
    a = torch.rand(9, 9, device="{device}")
    return timed({function}, a, a)
"""


@pytest.mark.parametrize(
    "device, function, mark", [("cuda", "torch.matmul", "  # <-"), ("cpu", "torch.matmul", ""), ("cuda", "print", "")]
)
def test_a_function_that_times_what_it_is_given_is_judged_by_its_calls(device: str, function: str, mark: str) -> None:
    expect(CALLED.format(device=device, function=function, mark=mark), "DEV305")


@pytest.mark.parametrize("call, mark", [("net(x)", "  # <-"), ("net(x).cpu()", ""), ("len(x)", "")])
def test_timeit_around_device_work_is_reported(call: str, mark: str) -> None:
    expect(
        f"""
import timeit
import torch
def use(net: torch.nn.Module, x):
    net.cuda()
    x = x.cuda()
    return timeit.timeit(lambda: {call}, number=10){mark}
""",
        "DEV305",
    )
