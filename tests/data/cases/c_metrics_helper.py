import torch


class SimpleTrainer:
    def __init__(self, model, batches, optimizer):
        self.model, self.batches, self.optimizer = model, iter(batches), optimizer
        self.history = []

    def run_step(self):
        losses = self.model(next(self.batches))
        total = sum(losses.values())
        self.optimizer.zero_grad()
        total.backward()
        self.record(losses)
        self.optimizer.step()

    def record(self, losses):
        self.history.append({name: loss.detach().cpu().item() for name, loss in losses.items()})  # <- DEV302
