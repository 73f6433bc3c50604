# a class that keeps a device
import torch


class Planner:
    def __init__(self, horizon, dt, device="cpu"):
        self.horizon = horizon
        self.dt = dt
        self.device = device

    def straight_line(self, start, goal):
        inputs = {}
        step = (goal[:, :2] - start[:, :2]) / (self.horizon - 1)
        speed = step / self.dt
        for i in range(self.horizon):
            inputs[f"pose_{i}"] = torch.cat([start[:, :2] + step * i, start[:, 2:]], dim=1)
            inputs[f"vel_{i}"] = torch.cat([speed, torch.zeros(speed.shape[0], 1)], dim=1)  # <- DEV102
        return inputs
