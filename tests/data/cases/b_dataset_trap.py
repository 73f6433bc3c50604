# a dataset works on the CPU
import torch
from torch.utils.data import Dataset


class Waves(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        wave = torch.randn(16000)
        window = torch.hann_window(400)
        return wave, window, torch.tensor(index)
