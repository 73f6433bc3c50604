"""DEV301: the elements of a tensor are read one by one, where `tolist` reads them all."""

from __future__ import annotations

from checking import expect, reported_lines

CODE = "DEV301"


def test_a_comprehension_over_a_tensor_is_reported_wherever_it_stands() -> None:
    expect(
        """
        import torch

        def keep_known(ids: torch.Tensor, known):
            def of_row(row):
                return torch.tensor([x.item() in known for x in row])  # <-

            return torch.stack([of_row(ids[i]) for i in range(ids.shape[0])])
        """,
        CODE,
    )


def test_a_loop_that_may_skip_most_of_them_is_not() -> None:
    code = """
        import torch

        def first_above(values: torch.Tensor, bound):
            for value in values:
                if value.item() > bound:
                    return value
        """
    assert reported_lines(code, CODE) == []


def test_one_read_of_all_is_fine() -> None:
    code = """
        import torch

        def keep_known(ids: torch.Tensor, known):
            return torch.tensor([x in known for x in ids.tolist()])
        """
    assert reported_lines(code, CODE) == []


def test_the_elements_in_a_helper_of_a_module_may_all_be_on_the_cpu() -> None:
    code = """
        import torch
        from torch import nn

        class Decoder(nn.Module):
            def words_of(self, ids: torch.Tensor):
                return [self.words[k.item()] for k in ids]
        """
    assert reported_lines(code, CODE) == []
    assert reported_lines(code.replace("nn.Module", "object"), CODE) == [7]
