"""DEV102 and DEV201: what is on the CPU on one path only, in layers, indices, helpers and gradients."""

from __future__ import annotations

import pytest
from checking import expect, reported_lines

TABLE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x: torch.Tensor, which: torch.Tensor, table{annotation}=None):
            if table is None:
                table = {made}
            return {given}
    """


@pytest.mark.parametrize("annotation", ["", ": torch.Tensor"])
@pytest.mark.parametrize("given", ["table[which]", "x + table[which]", "table[:, which]"])
def test_a_table_that_is_made_where_none_is_given_is_indexed_from_elsewhere(annotation: str, given: str) -> None:
    code = TABLE.format(annotation=annotation, given=given, made="torch.zeros(10, 3)")
    assert reported_lines(code, "DEV201") == [8]


@pytest.mark.parametrize("made", ["torch.zeros(10, 3, device=which.device)", "x.new_zeros(10, 3)"])
def test_a_table_that_is_made_where_the_index_is_is_fine(made: str) -> None:
    assert reported_lines(TABLE.format(annotation="", given="table[which]", made=made), "DEV201") == []


def test_a_table_and_its_index_that_go_to_the_host_together_are_fine() -> None:
    code = """
        import torch
        def work(table: torch.Tensor, which: torch.Tensor, small):
            if small:
                table = table.cpu()
                which = which.cpu()
            return table[which].to(table.device)
        """
    expect(code, "DEV102")


LAYERS = """
    import torch
    from torch import nn
    from blocks import Other

    class Block(nn.Module):
        def __init__(self, both):
            super().__init__()
            self.both = both
            self.a = nn.Linear(3, 3)

        def forward(self, x):
            y = self.a(x)
            if not self.both:
                return y
            return y, self.a(y)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([{layer} for _ in range(3)])

        def forward(self, x):
            total = torch.zeros(3)
            for layer in self.layers:
                x, skip = layer(x)
                total = total + skip
            return total
    """


@pytest.mark.parametrize("layer, lines", [("Block(True)", [24]), ("Other()", [])])
def test_what_the_layers_of_the_file_give_is_where_the_module_is(layer: str, lines: list[int]) -> None:
    assert reported_lines(LAYERS.format(layer=layer), "DEV201") == lines


HELPER = """
    import torch
    from torch import nn

    def overlap(a, b):
        return {joined} + torch.ones(3)

    class Loss(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor):
            return overlap({given})
    """


@pytest.mark.parametrize("joined", ["a * b", "(a * b).sum(0)", "2 * (a - b.float()).abs()"])
def test_what_operators_make_of_a_helpers_arguments_meets_what_it_creates(joined: str) -> None:
    assert reported_lines(HELPER.format(joined=joined, given="x, y"), "DEV201") == [6]


@pytest.mark.parametrize(
    "joined, given",
    [
        ("a * b", "2, 3"),
        ("(a * b).item()", "x, y"),
        ("(a * b).cpu()", "x, y"),
        ("len(a) * len(b)", "x, y"),
        ("(a.scale * b.scale)", "x, y"),
    ],
)
def test_numbers_and_copies_that_a_helper_makes_of_its_arguments_are_fine(joined: str, given: str) -> None:
    assert reported_lines(HELPER.format(joined=joined, given=given), "DEV201", "DEV102") == []


MOVED = "import torch, einops\nfrom torch import nn\ndef work(x, device, n):\n    x = x.to(device).requires_grad_()\n    y = x * 2\n"


@pytest.mark.parametrize(
    "line",
    [
        "torch.autograd.grad(y, x, torch.ones(y.shape))",
        "torch.autograd.grad(outputs=y, inputs=x, grad_outputs=torch.ones(3))",
        "y.backward(torch.ones(3))",
        "y.backward(gradient=torch.ones(y.size()))",
        "y + torch.normal(0.0, 1.0, size=(3,))",
        "y * einops.rearrange(torch.ones(3, 3), 'i j -> 1 i j')",
        "y + einops.repeat(torch.arange(n), 'n -> b n', b=3)",
        "sum([y, torch.zeros(3)])",
        "torch.cat([y, torch.multinomial(torch.ones(3), 1)])",
        "y + torch.tensor(n)[1:]",
    ],
)
def test_a_tensor_of_the_host_that_meets_what_was_moved_is_reported(line: str) -> None:
    assert reported_lines(f"{MOVED}    return {line}\n", "DEV102", "DEV201") == [6]


@pytest.mark.parametrize(
    "line",
    [
        "torch.autograd.grad(y, x, torch.ones_like(y))",
        "torch.autograd.grad(y.sum(), x)",
        "y.backward(torch.ones(3, device=device))",
        "y.sum().backward(retain_graph=True)",
        "y + torch.normal(y, 1.0)",
        "y * einops.rearrange(y, 'i j -> 1 i j')",
        "sum([y, 3])",
        "torch.cat([y, torch.multinomial(y, 1)])",
    ],
)
def test_what_is_where_the_moved_tensor_is_is_fine(line: str) -> None:
    assert reported_lines(f"{MOVED}    return {line}\n", "DEV102", "DEV201") == []
