# %% [markdown]
# # Train a network in context
#
# A frozen transformer layer trains a network held in its prompt. This page does it on the diabetes
# data, looks at what the layer holds, and compares the result with PyTorch.

# %%
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_diabetes

import icgd

features, target = load_diabetes(return_X_y=True)
X, Y = torch.tensor(features), torch.tensor(target).reshape(-1, 1)
X, Y = (X - X.mean(0)) / X.std(0), (Y - Y.mean()) / Y.std()
print(X.shape, Y.shape)

# %% [markdown]
# ## Compile
#
# `icgd.compile` takes the widths of the network and the learning rate. It never sees the data: the weights
# it writes down depend on nothing else.

# %%
net = icgd.Network(widths=(10, 16, 16, 1))
program = icgd.compile(net, icgd.SGD(lr=0.01))
print(
    "a block of the prompt has", program.layout.width, "numbers:", ", ".join(program.layout.names)
)
print("literal matrices of the layer:", f"{program.step.dense_parameters(16):,}", "entries")
print(
    "one head reads a number to",
    f"{program.certificate.sup_error:.0e}",
    "on |s| <=",
    program.radius,
)

# %% [markdown]
# ## Run
#
# `run` writes the examples and the initial weights into the prompt and calls the layer 2N times for every
# row: N forward steps, N backward steps. After a round the newest blocks hold the weights after one step of
# SGD. `record` is a function that is called after every round; here it keeps the loss on all rows from time
# to time.

# %%
rounds, losses = [], []


def watch(done, weights):
    if done % 40 == 0:
        rounds.append(done)
        losses.append(0.5 * float((program.predict(X, weights) - Y).square().mean()))


run = program.run(X, Y, init=net.init(seed=0), epochs=2, record=watch)
print(
    run.cost.rounds,
    "rounds,",
    run.cost.blocks,
    "calls of the layer,",
    run.cost.live_blocks_max,
    "live blocks at most",
)
print(f"loss {losses[0]:.3f} after 40 rounds, {losses[-1]:.3f} after {rounds[-1]}")

# %% [markdown]
# `program.predict` uses the same frozen layer: its forward steps make the prediction. PyTorch never evaluated
# any part of the network.

# %%
figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
axes.plot(rounds, losses, color="#0072b2")
axes.set(
    xlabel="round (one example each)",
    ylabel="mean loss",
    ylim=(0, None),
    title="Loss of the network in the prompt",
)
axes.grid(alpha=0.3)

# %% [markdown]
# ## Compare with PyTorch
#
# The same network, the same start, the same rows in the same order, trained by `torch.optim.SGD`.

# %%
layers = []
for W, b in net.init(seed=0):
    layer = torch.nn.Linear(W.shape[1], W.shape[0], dtype=torch.float64)
    layer.weight.data, layer.bias.data = W.clone(), b.clone()
    layers += [layer, torch.nn.ReLU()]
twin = torch.nn.Sequential(*layers[:-1])
optimizer = torch.optim.SGD(twin.parameters(), lr=0.01)
for _ in range(2):
    for x, y in zip(X, Y, strict=True):
        optimizer.zero_grad()
        (0.5 * (twin(x) - y).square().sum()).backward()
        optimizer.step()

apart = max(
    float((ours - theirs.data).abs().max())
    for (W, b), layer in zip(run.weights, twin[::2], strict=True)
    for ours, theirs in ((W, layer.weight), (b, layer.bias))
)
print(f"largest difference of any weight: {apart:.0e}")

# %% [markdown]
# ## Save
#
# A program is a directory with `model.safetensors` and `config.json`; the config names every slot. Loading
# recompiles the config and refuses weights that differ from it.

# %%
import tempfile

with tempfile.TemporaryDirectory() as directory:
    program.save_pretrained(directory)
    again = icgd.Program.from_pretrained(directory)
    same = again.run(X[:50], Y[:50], init=net.init(seed=0))
    first = program.run(X[:50], Y[:50], init=net.init(seed=0))
print(all(torch.equal(a[0], b[0]) for a, b in zip(same.weights, first.weights, strict=True)))

# %% [markdown]
# ## What to try next
#
# - `icgd.verify(program, X, Y, init=net.init(seed=0))` repeats this comparison round by round and puts a
#   bound beside every one of them: [Break it](05_break_it.md) shows what that catches.
# - [Inside one round](02_inside_one_round.md) takes a single round apart.
# - `run(..., executor="dense")` multiplies the literal matrices. It is much slower; the result differs by
#   rounding.
