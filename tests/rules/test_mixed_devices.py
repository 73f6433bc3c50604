"""DEV102: which joins the paths through a function lead to, and what the message and the fix say."""

from __future__ import annotations

import pytest
from checking import expect, findings, fixed, reported_lines, safeties

from torchlint.findings import Safety

CODE = "DEV102"


def test_exits_that_disagree() -> None:
    expect(
        """
        import torch
        def match(similarity: torch.Tensor):
            if similarity.shape[0] == 0:
                return -1 * torch.ones(similarity.shape[1], dtype=torch.long)  # <-
            best = similarity.argmax(dim=0)
            return best
        """,
        CODE,
    )


@pytest.mark.parametrize(
    "exits",
    [
        "if x.numel() == 0:\n        return torch.tensor([])\n    return x.abs()",
        "if x.numel() == 0:\n        return torch.tensor(0.0)\n    return x.abs().mean()",
        "if not isinstance(x, torch.Tensor):\n        return torch.from_numpy(x)\n    return x",
        "if x.numel() == 0:\n        return torch.zeros(3, device=x.device)\n    return x.abs()",
    ],
)
def test_exits_that_may_well_disagree(exits: str) -> None:
    expect(f"import torch\ndef f(x: torch.Tensor):\n    {exits}\n", CODE)


def test_worlds_of_a_device_test_do_not_mix() -> None:
    for test in ("torch.cuda.is_available()", "use_cuda", "device != 'cpu'", "device.type == 'cuda'", "not device == 'cpu'"):
        expect(
            f"""
            import torch
            def step(x: torch.Tensor, device, use_cuda):
                h = torch.zeros(3)
                x = x.to("cpu")
                if {test}:
                    h = h.cuda()
                    x = x.cuda()
                return h + x
            """,
            CODE,
        )


def test_what_is_brought_back_under_the_same_flag_is_on_the_host() -> None:
    expect(
        """
        import torch
        def predict(net, x: torch.Tensor, use_cuda):
            if use_cuda:
                x = x.cuda()
            p = x.softmax(dim=1)
            if use_cuda:
                p = p.cpu()
            return p * torch.ones(3)
        """,
        CODE,
    )


def test_defaults_of_a_function_decide_its_branches() -> None:
    expect(
        """
        import torch
        def mask(lengths: torch.Tensor, n, device=None):
            if device is None:
                device = lengths.device
            return torch.arange(n, device=device)[None, :] < lengths[:, None]
        def use(lengths: torch.Tensor, x: torch.Tensor):
            x, lengths = x.cuda(), lengths.cuda()
            return x.masked_fill(mask(lengths, 3), 0.0)
        """,
        CODE,
    )


def test_a_cpu_chosen_by_name_is_no_accusation_of_the_callers_tensors() -> None:
    expect(
        """
        import torch
        class Masks:
            def __init__(self, tensor):
                self.tensor = torch.as_tensor(tensor, device="cpu")
            def crop(self, boxes: torch.Tensor):
                rows = torch.arange(3, device=self.tensor.device)
                return torch.cat([rows[:, None].to(boxes.dtype), boxes], dim=1)
        """,
        CODE,
    )


def test_lazily_made_attributes_have_no_known_place() -> None:
    expect(
        """
        import torch
        from torch import nn
        class Search(nn.Module):
            def __init__(self):
                super().__init__()
                self.overlap = torch.empty(3)
            def forward(self, x, rows):
                if x.dim() == 1:
                    self.overlap = torch.zeros(3, device=x.device)
                return x.float() * self.overlap
        """,
        CODE,
    )


def test_what_was_computed_from_an_argument_says_nothing_when_it_is_moved() -> None:
    code = """
        import torch
        import torch.nn.functional as F
        def activation(dist, device):
            near = (dist < 3).to(device)
            return F.relu(3 - dist) * near
        """
    assert not reported_lines(code, "DEV102")


def test_a_branch_that_is_traced_has_no_devices() -> None:
    code = """
        import torch
        from torch import nn
        class Shift(nn.Module):
            def forward(self, ids: torch.Tensor):
                if {test}:
                    return torch.cat([torch.zeros(1, 1), ids])
                return ids
        """
    assert not _placed(code.format(test="is_torch_fx_proxy(ids)"))
    assert _placed(code.format(test="ids.ndim > 1"))


def test_the_legacy_constructor_gives_a_tensor_back_as_it_is() -> None:
    code = """
        import torch
        from torch import nn
        class Scale(nn.Module):
            def forward(self, x: torch.Tensor):
                return torch.Tensor({given}) * x
        """
    assert not _placed(code.format(given="x + 1"))
    assert _placed(code.format(given="[1.0, 2.0]"))


def _placed(code: str) -> bool:
    """Whether a CPU tensor is reported, by either of the rules that may."""
    return bool(findings(code, "DEV102", "DEV201"))


def test_the_elements_of_a_list_are_named_one_by_one() -> None:
    code = """
        import torch
        def join(boxes, n: int, device):
            boxes = boxes.to(device)
            one = torch.arange(n).reshape(-1, 1)
            return torch.cat([
                one.float(),
                boxes + 1.0,
            ], dim=1)
    """
    (finding,) = findings(code, CODE)
    assert "`boxes + 1.0`" in finding.message
    assert "[" not in finding.message


@pytest.mark.parametrize(
    "joined", ["torch.cat([mask, x])", "torch.stack((x, mask), dim=1)", "mask[x]", "mask[0:1, x]"]
)
def test_the_message_names_the_tensors_and_not_the_list_that_they_stand_in(joined: str) -> None:
    code = f"""
        import torch
        def f(rows: torch.Tensor, device):
            x = rows.to(device)
            mask = torch.from_numpy(rows.cpu().numpy())
            return {joined}
        """
    (found,) = findings(code, CODE)
    assert "joins `x`, which is on `device`" in found.message


def test_the_fix_of_random_numbers_is_unsafe() -> None:
    code = """
        import torch
        def noisy(x: torch.Tensor, device):
            x = x.to(device)
            return x + torch.randn(3)
        """
    assert safeties(code, CODE) == [Safety.UNSAFE]
    assert "torch.randn(3, device=device)" in fixed(code, CODE)
