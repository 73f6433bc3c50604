import torch


def grad_cam(model, image, layer, device):
    kept = {}
    layer.register_forward_hook(lambda m, i, o: kept.update(act=o))
    model.to(device).eval()
    logits = model(image.to(device))
    score = logits.max()
    acts = kept["act"]
    grads = torch.autograd.grad(score, acts)[0]
    weights = grads.mean(dim=(2, 3))[0]
    cam = torch.zeros(acts.shape[2:])  # <- DEV201
    for w, a in zip(weights, acts[0]):
        cam += w * a
    return cam.clamp(min=0)
