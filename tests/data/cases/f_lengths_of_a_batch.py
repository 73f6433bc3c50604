import torch
from torch import nn, optim


class Encoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, bidirectional=True)

    def forward(self, src, src_len):
        embedded = self.embedding(src)
        packed = nn.utils.rnn.pack_padded_sequence(embedded, src_len)  # <- DEV102
        out, hidden = self.rnn(packed)
        return nn.utils.rnn.pad_packed_sequence(out)[0], hidden


def run(loader, vocab):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = Encoder(vocab, 64).to(device)
    for src, src_len in loader:
        src = src.to(device)
        src_len = src_len.to(device)
        states, hidden = encoder(src, src_len)
