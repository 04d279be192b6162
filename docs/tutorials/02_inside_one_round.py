# %% [markdown]
# # Inside one round
#
# One round of training, taken apart: the blocks of the prompt, who sees whom, the three parts of the layer,
# one head and one gate. The network is so small that every number can be checked by hand.

# %%
import torch

import icgd

f64 = torch.float64
net = icgd.Network((2, 2, 1))
program = icgd.compile(net, icgd.SGD(lr=0.1))
W1, b1 = torch.tensor([[1.0, -0.5], [0.5, 1.0]], dtype=f64), torch.tensor([0.0, -2.0], dtype=f64)
W2, b2 = torch.tensor([[2.0, 1.0]], dtype=f64), torch.tensor([0.5], dtype=f64)
init = [(W1, b1), (W2, b2)]
x, y = torch.tensor([[1.0, 0.5]], dtype=f64), torch.tensor([[1.0]], dtype=f64)

# %% [markdown]
# By hand: z₁ = W₁x + b₁ = (0.75, −1), so unit 1 is open and unit 2 closed, o₁ = (0.75, 0). The output is
# 2·0.75 + 0.5 = 2, the target 1, the error δ₂ = 1. Then W₂ᵀδ₂ = (2, 1), the closed unit takes nothing, δ₁ =
# (2, 0).
#
# ## The blocks that were written

# %%
run = program.run(x, y, init=init, record="trace")


def shown(value):
    return value if isinstance(value, float) else [round(v, 6) for v in value.reshape(-1).tolist()]


for entry in run.trace:
    sees = " and ".join(f"{kind}{layer or ''}" for kind, layer in entry.step.reads)
    kind, layer = entry.step.writes
    print(f"{entry.step.kind:8} sees {sees:9} writes {kind}{layer}")
    for slot in ("out", "inp", "closed", "weight", "bias"):
        print(f"    {slot:7}", shown(entry.block.value(slot)))

# %% [markdown]
# `out` of the blocks F1 and F2 are o₁ and o₂, `out` of B2 and B1 are δ₂ and δ₁. The weights of a B block are
# those after the step: W₂ − 0.1·δ₂o₁ᵀ = (2 − 0.075, 1) and so on. The row of the closed unit has not moved by
# a single bit:

# %%
print(torch.equal(run.weights[0][0][1], W1[1]), torch.equal(run.weights[0][1][1], b1[1]))

# %% [markdown]
# ## Who sees whom
#
# The mask is a schedule: which two blocks a call sees and which one it writes. The layer is not told which
# step it is. It sees two blocks stacked into one token, and their three flags tell it what to do.

# %%
for step in program.mask.steps():
    print(f"{step.kind:8} {step.reads} -> {step.writes}")
flags = ("not_forward", "not_backward", "not_data")
for entry in run.trace:
    print(entry.step.writes, {flag: entry.block.value(flag) for flag in flags})

# %% [markdown]
# ## The layer as literal matrices
#
# `program.step.dense` writes out every matrix. Here is the x step, the first one of the round, done by hand:
# stack the blocks B1 and X into tokens of two columns (as many as the network is wide), then feed-forward,
# attention, feed-forward.

# %%
layout, literal = program.layout, program.step.dense(2)
top = layout.pack({"weight": W1, "bias": b1, "not_forward": 1.0, "not_data": 1.0})
bottom = layout.pack({"out": x[0], "not_forward": 1.0, "not_backward": 1.0})
tokens = torch.cat([top, bottom]).repeat(2, 1)
middle = literal.pre(tokens)
mixed = literal.attention(middle)
written = literal.post(mixed)
print(
    "stacked", tuple(tokens.shape), "working", tuple(middle.shape), "written", tuple(written.shape)
)

work = program.step.attention.layout
before, after = work.unpack(middle[0]), work.unpack(mixed[0])
print(
    "query_forward ",
    before["query_forward"].tolist(),
    "  query_backward",
    before["query_backward"].tolist(),
)
print("z before heads", before["z"].tolist())
print("z after heads ", [round(v, 12) for v in after["z"].tolist()])
print("F1.out        ", [round(v, 12) for v in layout.unpack(written[0])["out"].tolist()])

# %% [markdown]
# The first feed-forward layer is a router: x went to `query_forward` and nothing to `query_backward`, b₁ went
# to `z`. The heads added W₁x to `z`. The second feed-forward layer applied the ReLU.
#
# ## One head
#
# Head 1 of the bank `inputs` asks with x₁ = 1 and collects column 1 of W₁. Its grid tokens carry levels L_k;
# the softmax puts a discretised bell curve around the number asked for, and the mean of the levels under it
# is that number.

# %%
head = literal.attention
grid = head.right @ middle @ head.W_A + head.position
scores = (middle[:1] @ head.W_Q[0] + head.b_Q[0]) @ (grid @ head.W_K[0]).T
weights = torch.softmax(scores, dim=-1)[0]
levels = program.step.attention.levels
order = levels.argsort()
largest = float(weights.max())
for k in order.tolist():
    if weights[k] > 1e-4:
        print(
            f"level {float(levels[k]):9.2f}  weight {float(weights[k]):.4f}  "
            + "#" * round(40 * float(weights[k]) / largest)
        )
print("mean of the levels:", f"{float(weights @ levels):.10f}")

# %% [markdown]
# The levels are about 260 apart (the certified range is |s| ≤ 1024), and yet their mean is 1 to more than ten
# digits. [The spectral head](../spectral_head.md) explains why.
#
# ## One gate
#
# The router is made of gates relu(v − C·off) − relu(−v − C·off). With `off` = 0 the value passes to the last
# bit, with `off` ≥ 1 nothing is left of it, not even rounding.

# %%
C = 2.0**75


def gate(v, off):
    return torch.relu(v - C * off) - torch.relu(-v - C * off)


v = torch.tensor([0.1, -3.7, 1e-12], dtype=f64)
print(torch.equal(gate(v, 0.0), v), gate(v, 1.0).abs().max().item())
print("v + C - C, as one might have written it:", ((v + C) - C).tolist())

# %% [markdown]
# ## Errors
#
# Only the rounding of the heads remains. From the same weights, PyTorch's own step:

# %%
parameters = [p.clone().requires_grad_() for pair in init for p in pair]
hidden = torch.relu(parameters[0] @ x[0] + parameters[1])
loss = 0.5 * (parameters[2] @ hidden + parameters[3] - y[0]).square().sum()
loss.backward()
exact = [p.detach() - 0.1 * p.grad for p in parameters]
mine = [p for pair in run.weights for p in pair]
worst = max(float((a - b).abs().max()) for a, b in zip(mine, exact, strict=True))
check = icgd.verify(program, x, y, init=init)
print(
    f"measured {worst:.0e}, bound of this round {check.rounds[0].round_bound:.0e}, passed {check.passed}"
)
