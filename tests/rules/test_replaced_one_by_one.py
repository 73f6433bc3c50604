"""DEV102: a loop through a container that moves each of its tensors has moved all of it."""

from __future__ import annotations

import pytest
from checking import expect

CODE = "DEV102"

MODEL = """
        import torch
        from transformers import AutoModel, AutoTokenizer

        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = AutoModel.from_pretrained("x").to(device)
        tokenizer = AutoTokenizer.from_pretrained("x")
        """


@pytest.mark.parametrize(
    ("loop", "replaced", "reported"),
    [
        ("for k in batch:", "batch[k] = batch[k].to(device)", False),
        ("for k, v in batch.items():", "batch[k] = v.to(device)", False),
        ("for k in list(batch.keys()):", "batch[k] = batch[k].to(device)", False),
        ("for k in batch:", "batch[k] = batch[k].long()", True),
        ("for k in others:", "other[k] = batch[k].to(device)", True),
    ],
)
def test_a_batch_is_where_a_loop_put_each_of_its_tensors(loop: str, replaced: str, reported: bool) -> None:
    code = f"""{MODEL}
        def encode(sentences, others, other):
            batch = tokenizer(sentences, return_tensors="pt")
            {loop}
                {replaced}
            return model(**batch)  {"# <-" if reported else ""}
        """
    expect(code, CODE)


def test_which_tensors_a_test_left_where_they_were_is_open() -> None:
    code = f"""{MODEL}
        def encode(sentences):
            batch = tokenizer(sentences, return_tensors="pt")
            for k in batch:
                if k != "labels":
                    batch[k] = batch[k].to(device)
            return model(**batch)
        """
    expect(code, CODE)


def test_tensors_of_a_list_are_replaced_by_their_position() -> None:
    code = """
        import torch
        def total(x, device):
            parts = [torch.zeros(3), torch.ones(3)]
            for i in range(len(parts)):
                parts[i] = parts[i].to(device)
            return parts[0] + x.to(device)
        """
    expect(code, CODE)
    expect(code.replace("parts[i] = parts[i]", "part = parts[i]").replace("ones(3)]", "ones(3)]  # <-"), CODE)
