# the entries of a batch
import torch


class Runner:
    def __init__(self, model, optimizer):
        self.device = torch.device("cuda:0")  # <- DEV501
        self.model = model.to(self.device)
        self.optimizer = optimizer

    def step(self, batch):
        {k: v.to(self.device) for k, v in batch.items()}  # <- DEV101
        loss = self.model(**batch)["loss"]
        loss.backward()
        self.optimizer.step()
