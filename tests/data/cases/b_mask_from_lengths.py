# positions against lengths
import torch


def get_mask_from_lengths(lengths):
    limit = torch.max(lengths).item()
    ids = torch.arange(0, limit)  # <- DEV102
    return (ids < lengths.unsqueeze(1)).bool()


def parse_output(outputs, output_lengths):
    mask = ~get_mask_from_lengths(output_lengths)
    outputs[0].data.masked_fill_(mask.unsqueeze(1), 0.0)
    return outputs
