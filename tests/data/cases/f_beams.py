import torch
import torch.nn.functional as F


def beam_search(model, memory, beam, max_len, device):
    outputs = torch.zeros(beam, max_len).long()  # <- DEV102
    outputs[:, 0] = 2
    scores = torch.zeros(beam, 1, device=device)
    model = model.to(device)
    for i in range(1, max_len):
        logits = model.decode(outputs[:, :i].to(device), memory.to(device))
        probs, index = F.log_softmax(logits[:, -1], dim=-1).topk(beam)
        total = probs + scores
        best, flat = total.view(-1).topk(beam)
        row = torch.div(flat, beam, rounding_mode="floor")
        outputs[:, :i] = outputs[row, :i]
        scores = best.unsqueeze(1)
    return outputs
