"""DEV302: copies to the host in every step."""

from __future__ import annotations

import pytest
from checking import expect
from steps import IMPORTS, findings, step, texts

CODE = "DEV302"


@pytest.mark.parametrize(
    "line",
    [
        "losses.append(loss.detach().cpu())",
        "outputs.append(output.detach().to('cpu'))",
        "outputs.append(output.detach().to(torch.device('cpu')))",
        "outputs.append(output.detach().to(device='cpu'))",
        "score += f1(output.cpu().numpy(), 1)",
        "total += loss.cpu().item()",
        "values = output.numpy(force=True)",
    ],
)
def test_a_copy_in_every_step_is_reported(line: str) -> None:
    assert texts(step(line), CODE) == [line]


@pytest.mark.parametrize(
    "line",
    [
        "x = x.to(device)",
        "loss = loss.to(torch.float32)",
        "model = model.cpu()",
        "target_net = target_net.to('cpu')",
        "values = loss.detach().numpy()",
        "sizes = torch.tensor([1, 2]).cpu()",
        "if step % every == 0: show(output.cpu())",
        "state, reward = env.step(output.argmax(1).cpu().numpy())",
    ],
)
def test_no_copy_in_every_step_is_silent(line: str) -> None:
    assert texts(step(line), CODE) == []


def test_a_copy_that_is_read_is_one_finding() -> None:
    assert len(findings(step("total += loss.detach().cpu().numpy().item()"), "DEV301", CODE)) == 1


def test_lengths_of_a_packed_sequence_belong_on_the_host() -> None:
    line = "packed = nn.utils.rnn.pack_padded_sequence(output, y.cpu(), batch_first=True)"
    assert texts(step(line), CODE) == []


def test_a_device_that_is_the_host_does_not_wait() -> None:
    code = IMPORTS + (
        "device = 'cpu'\n"
        "model = nn.Linear(3, 3).to(device)\n"
        "for x in loader:\n"
        "    x = x.to(device)\n"
        "    loss = model(x).mean()\n"
        "    loss.backward()\n"
        "    print(loss.item())\n"
    )
    assert texts(code, CODE, "DEV301") == []


def test_a_batch_as_it_is_loaded_is_on_the_host() -> None:
    code = IMPORTS + (
        "def fit(model, data, optimizer):\n"
        "    loader = torch.utils.data.DataLoader(data)\n"
        "    for x, y in loader:\n"
        "        x, y = x.to('cpu'), y.to('cpu')\n"
        "        loss = F.mse_loss(model(x), y)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    )
    assert texts(code, CODE) == []


def test_what_mpi_sends_has_to_be_on_the_host() -> None:
    assert not texts(step("total = comm.allreduce(loss.detach().cpu(), op=MPI.SUM)"), CODE)
    assert texts(step("total = meter.include(loss.detach().cpu())"), CODE)


@pytest.mark.parametrize("imported", ["from mpi4py import MPI", "import mpi4py.MPI as MPI"])
def test_a_communicator_of_mpi4py_is_known_by_its_module(imported: str) -> None:
    begin = f"{imported}\ncomm = MPI.COMM_WORLD\n"
    assert not texts(begin + step("total = comm.allreduce(loss.detach().cpu(), op=MPI.SUM)"), CODE)
    assert not texts(begin + step("total = MPI.COMM_WORLD.allreduce(loss.detach().cpu())"), CODE)
    assert texts(begin + step("total = meter.include(loss.detach().cpu())"), CODE)


def test_priorities_go_to_the_host() -> None:
    body = "buffer.update_priorities(indices, loss.detach().cpu().numpy())"
    assert texts(step(body), "DEV302") == []
    assert texts(step(body.replace("update_priorities", "extend")), "DEV302") != []


def test_rows_of_a_jacobian_are_no_steps() -> None:
    expect(
        """
        import torch
        def saliency(model, x: torch.Tensor):
            rows = []
            for output in model(x.to("cuda")):
                grad_output = torch.ones(3, device="cuda")
                output.backward(grad_output, retain_graph=True)
                rows.append(output.detach().cpu().numpy())
            return rows
        """,
        "DEV302",
    )
