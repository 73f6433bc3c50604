import copy
import torch
from torch import nn


class DoubleDQN:
    def __init__(self, obs, acts, device):
        self.device = device
        self.online = nn.Sequential(nn.Linear(obs, 64), nn.ReLU(), nn.Linear(64, acts)).to(device)
        self.target = nn.Sequential(nn.Linear(obs, 64), nn.ReLU(), nn.Linear(64, acts))
        self.optimizer = torch.optim.Adam(self.online.parameters())

    def learn(self, states, actions, rewards, next_states):
        states = torch.as_tensor(states, dtype=torch.float32, device=self.device)
        next_states = torch.as_tensor(next_states, dtype=torch.float32, device=self.device)
        with torch.no_grad():
            best = self.target(next_states).max(1)[0]  # <- DEV102
        loss = (self.online(states).max(1)[0] - best).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
