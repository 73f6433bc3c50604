# no training, no scaler
import torch


class Predictor:
    def __init__(self, net, device):
        self.net = net.eval()
        self.device = torch.device(device)

    @torch.inference_mode()
    def __call__(self, x):
        with torch.autocast(self.device.type, dtype=torch.float16):
            return self.net(x.to(self.device))
