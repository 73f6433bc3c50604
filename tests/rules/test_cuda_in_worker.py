"""DEV603: which loaders get tensors from workers that can't have them there."""

from __future__ import annotations

import pytest
from checking import expect, findings

CODE = "DEV603"


def dataset(item: str, *, loader: str = "num_workers=2", init: str = "self.rows = rows") -> str:
    return f"""
        import torch
        from torch.utils.data import DataLoader, Dataset
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        class Rows(Dataset):
            def __init__(self, rows):
                {init}
            def __len__(self):
                return len(self.rows)
            def __getitem__(self, index):
                {item}
        def load(rows):
            return DataLoader(Rows(rows), batch_size=4, {loader})
        """


@pytest.mark.parametrize(
    "item",
    [
        "return torch.tensor(self.rows[index]).cuda()  # <-",
        "return torch.tensor(self.rows[index]).to('cuda:0'), index  # <-",
        "return {'x': torch.tensor(self.rows[index]).to(device)}  # <-",
        "x = torch.zeros(3, device='cuda')  # <-\n                return x, self.rows[index]",
        "return torch.load(self.rows[index]).cuda()  # <-",
    ],
)
def test_items_on_an_accelerator_can_not_come_from_workers(item: str) -> None:
    expect(dataset(item), CODE)


def test_what_is_kept_on_an_accelerator_can_not_be_read_in_a_worker() -> None:
    expect(dataset("return self.rows[index]", init="self.rows = torch.tensor(rows).cuda()  # <-"), CODE)


@pytest.mark.parametrize(
    "loader",
    [
        "num_workers=0",
        "num_workers=args.workers",
        "shuffle=True",
        "num_workers=2, multiprocessing_context='spawn'",
    ],
)
def test_a_loader_without_forked_workers_may(loader: str) -> None:
    expect(dataset("return torch.tensor(self.rows[index]).cuda()", loader=loader), CODE)


def test_a_file_that_starts_its_processes_otherwise_may() -> None:
    code = dataset("return torch.tensor(self.rows[index]).cuda()")
    expect(code.rstrip() + "\n        torch.multiprocessing.set_start_method('spawn')\n", CODE)


@pytest.mark.parametrize(
    "item",
    [
        "return torch.tensor(self.rows[index])",
        "return torch.tensor(self.rows[index]).cuda().cpu()",
        "return torch.tensor(self.rows[index]).to(self.device)",
    ],
)
def test_items_on_the_host_or_where_the_caller_says_are_silent(item: str) -> None:
    expect(dataset(item, init="self.rows, self.device = rows, rows.device"), CODE)


def test_what_is_on_an_accelerator_can_not_be_pinned() -> None:
    (finding,) = findings(
        dataset("return torch.tensor(self.rows[index]).cuda()", loader="pin_memory=True"), CODE
    )
    assert "pin" in finding.message
    assert [r.message for r in finding.related] == ["the loader is made here"]


def test_a_collate_function_runs_in_the_workers() -> None:
    expect(
        """
        import torch
        from torch.utils.data import DataLoader
        def collate(rows):
            return torch.stack(rows).cuda()  # <-
        def load(rows):
            return DataLoader(rows, batch_size=4, collate_fn=collate, num_workers=2)
        """,
        CODE,
    )


def test_a_dataset_of_tensors_on_an_accelerator_is_reported_where_it_is_loaded() -> None:
    expect(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        def load(x: torch.Tensor, y: torch.Tensor):
            rows = TensorDataset(x.cuda(), y.cuda())
            return DataLoader(rows, num_workers=4)  # <-
        """,
        CODE,
    )
