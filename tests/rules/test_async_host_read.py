"""DEV602: asynchronous copies to the host that are read too early."""

from __future__ import annotations

import pytest
from checking import expect, fixed

CODE = "DEV602"
HEAD = "import torch\ndef read(model, x: torch.Tensor, device):\n    y = torch.relu(x.to(device))\n"


@pytest.mark.parametrize(
    "read",
    [
        "z = y.to('cpu', non_blocking=True).numpy()",
        "z = y.to(device='cpu', non_blocking=True).tolist()",
        "z = y.to('cpu', torch.float32, True).numpy()",
        "z = y.detach().to('cpu', non_blocking=True).view(-1).numpy()",
        "z = y.to('cpu', non_blocking=True) + 1",
        "z = y.to(torch.device('cpu'), non_blocking=True).sum()",
        "z = model(x).to('cpu', non_blocking=True).numpy()",
        "if y.to('cpu', non_blocking=True).any(): print(1)",
    ],
)
def test_a_read_at_once_is_reported(read: str) -> None:
    expect(HEAD + f"    {read}  # <-\n", CODE)


def test_a_read_through_a_name_is_reported() -> None:
    expect(HEAD + "    z = y.to('cpu', non_blocking=True)\n    return z.numpy()  # <-\n", CODE)


@pytest.mark.parametrize(
    "wait",
    [
        "torch.cuda.synchronize()",
        "torch.cuda.current_stream().synchronize()",
        "done.synchronize()",
        "w = y.sum().item()",
    ],
)
def test_a_wait_in_between_makes_it_right(wait: str) -> None:
    expect(HEAD + f"    z = y.to('cpu', non_blocking=True)\n    {wait}\n    return z.numpy()\n", CODE)


@pytest.mark.parametrize(
    "read",
    [
        "z = y.to('cpu').numpy()",
        "z = y.to('cpu', non_blocking=False).numpy()",
        "z = y.to('cpu', torch.float32).numpy()",
        "z = x.to(device, non_blocking=True) + 1",
        "z = torch.ones(3).to('cpu', non_blocking=True).numpy()",
        "z = y.to('cpu', non_blocking=True).shape",
        "return y.to('cpu', non_blocking=True)",
    ],
)
def test_no_copy_that_is_read_is_silent(read: str) -> None:
    expect(HEAD + f"    {read}\n", CODE)


def test_the_fix_waits_for_the_copy() -> None:
    code = HEAD + "    z = y.to('cpu', non_blocking=True)\n    return z.numpy()\n"
    assert fixed(code, CODE) == code.replace("True", "False")


@pytest.mark.parametrize("wait, mark", [("pass", "  # <-"), ("torch.cuda.synchronize()", "")])
def test_a_buffer_that_is_copied_into_arrives_later(wait: str, mark: str) -> None:
    code = HEAD + "    buffer = torch.empty(3, pin_memory=True)\n    buffer.copy_(y, non_blocking=True)\n"
    expect(code + f"    {wait}\n    return buffer.numpy(){mark}\n", CODE)


def test_numpy_reads_what_it_is_given() -> None:
    expect(
        "import numpy as np\n"
        + HEAD
        + "    z = y.to('cpu', non_blocking=True)\n    return np.asarray(z)  # <-\n",
        CODE,
    )


def test_to_save_is_to_read() -> None:
    code = HEAD + "    state = {k: v.to('cpu', non_blocking=True) for k, v in {'y': y}.items()}\n"
    expect(code + "    torch.save(state, 'x.pt')  # <-\n", CODE)
    expect(code + "    torch.cuda.synchronize()\n    torch.save(state, 'x.pt')\n", CODE)
