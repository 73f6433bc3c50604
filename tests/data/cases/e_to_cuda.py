# to with a literal
def infer(net, x):
    x = x.to("cuda")  # todo <- DEV501
    return net(x)
