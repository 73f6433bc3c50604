# a class of the project has a `to` that works in place
class Batch:
    def __init__(self, images, labels):
        self.images = images
        self.labels = labels

    def to(self, device):
        self.images = self.images.to(device)
        self.labels = self.labels.to(device)
        return self


def fit(net, loader, device):
    for images, labels in loader:
        batch = Batch(images, labels)
        batch.to(device)
        yield net(batch.images)
