"""adan_reference.py - Adan by its published formula (arXiv 2208.06677), in PyTorch (needs torch).

The betas are those of the authors' program, 1 minus those of the paper.
"""
import torch


class Adan(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.98, 0.92, 0.99), eps=1e-8, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, group)

    def update(self, p, group):
        b1, b2, b3 = group["betas"]
        lr, s, g = group["lr"], self.state[p], p.grad
        if not s:
            s.update({k: torch.zeros_like(p) for k in ("m", "v", "n")}, before=g.clone())
        diff = g - s["before"]
        s["m"] = b1 * s["m"] + (1 - b1) * g
        s["v"] = b2 * s["v"] + (1 - b2) * diff
        s["n"] = b3 * s["n"] + (1 - b3) * (g + b2 * diff) ** 2
        s["before"] = g.clone()
        ahead = s["m"] / (1 - b1 ** self.t) + b2 * s["v"] / (1 - b2 ** self.t)
        step = lr * ahead / ((s["n"] / (1 - b3 ** self.t)).sqrt() + group["eps"])
        p.copy_((p - step) / (1 + lr * group["weight_decay"]))
