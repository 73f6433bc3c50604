"""DEV603: a DataLoader's workers give tensors that are on an accelerator."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Severity
from torchlint.placement.events import Workers
from torchlint.rule import Note, Report, Rule, confidence_of


class CudaInWorker(Rule):
    """A DataLoader's workers give tensors that are on an accelerator.

    What it does
        Finds loaders with `num_workers` above 0, or with `pin_memory=True`, whose dataset or `collate_fn` gives
        tensors on an accelerator: moved in `__getitem__`, made there, or kept there since `__init__`.

    Why it matters
        Workers are forked, and CUDA can't be used in a forked process ("Cannot re-initialize CUDA in forked
        subprocess"). Memory can only be pinned on the host. And each item is a small copy of its own, where the
        batch would be one.

    Example
        import torch
        from torch.utils.data import DataLoader, Dataset


        class Images(Dataset):
            def __init__(self, images):
                self.images = images

            def __getitem__(self, index):
                return torch.as_tensor(self.images[index]).to("cuda")  # <-


        def load(images):
            return DataLoader(Images(images), batch_size=8, num_workers=4)

    Use instead
        import torch
        from torch.utils.data import DataLoader, Dataset


        class Images(Dataset):
            def __init__(self, images):
                self.images = images

            def __getitem__(self, index):
                return torch.as_tensor(self.images[index])


        def load(images):
            return DataLoader(Images(images), batch_size=8, num_workers=4)

    Fix
        None. Keep the items on the CPU, and move each batch where it is used.

    References
        https://docs.pytorch.org/docs/stable/notes/multiprocessing.html#cuda-in-multiprocessing
        https://github.com/pytorch/pytorch/issues/40403
    """

    code = "DEV603"
    name = "cuda-in-worker"
    severity = Severity.ERROR

    def on_workers(self, workers: Workers) -> Iterator[Report]:
        if workers.scene.is_test:
            return
        if workers.count:
            message = (
                "a tensor is on an accelerator in a loader's workers, which are forked and can't use one"
            )
        else:
            message = "a tensor is on an accelerator, where the loader can't pin it"
        notes = (Note("context", workers.loader, "the loader is made here"),)
        yield self.finding(workers, message, confidence=confidence_of(workers.certainty), notes=notes)
