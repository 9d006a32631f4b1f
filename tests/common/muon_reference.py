"""muon_reference.py - Muon as its authors' formulas say it, in float32, with AdamW for the parameters that it leaves (needs torch)."""
import torch


def hidden(net):
    """The names that Muon takes: matrices and convolutions, but no embedding and not the layer that makes the logits."""
    linear = [m for m in net.modules() if isinstance(m, torch.nn.Linear)]
    left = [m.weight for m in net.modules() if isinstance(m, torch.nn.Embedding)] + [m.weight for m in linear[-1:]]
    return {n for n, p in net.named_parameters() if p.ndim >= 2 and not any(p is w for w in left)}


def orthogonal(m):
    """Newton-Schulz: X <- a X + (b A + c A A) X with A = X X^T, five times."""
    x = m.T if m.shape[0] > m.shape[1] else m
    x = x / max(float(x.norm()), 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if m.shape[0] > m.shape[1] else x


class Muon:
    """`decay` has the names of decayed parameters; rates may be changed between steps."""

    def __init__(self, net, lr, adam_lr, weight_decay, decay, adjust="original", momentum=0.95):
        self.lr, self.weight_decay, self.adjust, self.momentum = lr, weight_decay, adjust, momentum
        names = hidden(net)
        self.own = [(p, torch.zeros_like(p), n in decay) for n, p in net.named_parameters() if n in names]
        others = [(n in decay, p) for n, p in net.named_parameters() if n not in names]
        groups = [{"params": [p for d, p in others if d == k], "weight_decay": weight_decay * k} for k in (True, False)]
        self.adam = torch.optim.AdamW([g for g in groups if g["params"]], lr=adam_lr)

    def zero_grad(self):
        self.adam.zero_grad()
        for p, _, _ in self.own:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.adam.step()
        for p, buffer, decays in self.own:
            buffer.mul_(self.momentum).add_(p.grad, alpha=1 - self.momentum)
            step = orthogonal((self.momentum * buffer + (1 - self.momentum) * p.grad).flatten(1))
            rows, cols = step.shape
            scale = max(1, rows / cols) ** 0.5 if self.adjust == "original" else 0.2 * max(rows, cols) ** 0.5
            if decays:
                p.mul_(1 - self.lr * self.weight_decay)
            p.add_(step.view_as(p), alpha=-self.lr * scale)
