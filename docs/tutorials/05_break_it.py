# %% [markdown]
# # Break it
#
# A check that never fails proves nothing. This page alters programs on purpose and looks at what
# `icgd.verify`, the loader and the range watch say. It also shows what they do not catch.

# %%
import copy
import tempfile

import torch

import icgd

net = icgd.Network((2, 3, 1))
program = icgd.compile(net, icgd.SGD(lr=0.05))
generator = torch.Generator().manual_seed(0)
X = torch.randn(30, 2, generator=generator, dtype=torch.float64)
Y = torch.sin(X[:, :1])
init = net.init(seed=0)

check = icgd.verify(program, X, Y, init=init)
print(
    "as compiled:",
    check.passed,
    f"error {check.max_round_error:.0e}, bound {check.round_bound:.0e}",
)

# %% [markdown]
# ## One altered weight
#
# The output weight with which head 2 writes its column of the update is the learning rate; change it by one
# part in a million.

# %%
broken = copy.deepcopy(program)
with torch.no_grad():
    output = dict(broken.named_parameters())
    name = next(n for n in output if "inputs" in n and "output" in n and "delta" in n)
    output[name].mul_(1 + 1e-6)
print("changed", name)
check = icgd.verify(broken, X, Y, init=init)
print(
    "verdict:",
    check.passed,
    f" one round is off by {check.max_round_error:.0e}, bound {check.round_bound:.0e}",
)

# %% [markdown]
# You can try every single weight like this; the tests of the package do, one after the other. A training run
# alone would miss many of them, because most slots never hold anything revealing. That is what probes are
# for: blocks of every kind of step, with every slot filled and queries up to the edge of the certified range.

# %%
for kind in ("x", "forward", "y", "backward"):
    for executor in ("structured", "dense"):
        probes = [p for p in check.probes if p.kind == kind and p.executor == executor]
        worst = max(probes, key=lambda p: p.error)
        failed = sum(not p.passed for p in probes)
        said = f"error {worst.error:.0e}, bound {worst.bound:.0e}: {failed} of {len(probes)} failed"
        print(f"{kind:9} {executor:11} {said}")

# %% [markdown]
# ## A damaged file
#
# Loading recompiles the config and compares.

# %%
with tempfile.TemporaryDirectory() as directory:
    broken.save_pretrained(directory)
    try:
        icgd.Program.from_pretrained(directory)
    except icgd.InvalidFile as refused:
        print("refused:", str(refused).replace(directory, "DIR"))
    anyway = icgd.Program.from_pretrained(directory, allow_altered=True)
print("loaded with allow_altered=True:", anyway.config["construction"])

# %% [markdown]
# ## The published temperature
#
# `temperature="hard"` lets every head pick the nearest grid token. That is not a bug but another program: it
# is right to half a grid spacing, its certificate says so, and it keeps that promise. The training run is
# another matter.

# %%
for n_grid in (32, 256):
    hard = icgd.compile(net, icgd.SGD(lr=0.05), temperature="hard", n_grid=n_grid, radius=8.0)
    check = icgd.verify(hard, X, Y, init=init)
    print(
        f"{n_grid:5} tokens: certified {hard.certificate.sup_error:.0e}, a round {check.max_round_error:.0e}, "
        f"after {len(check.rounds)} rounds {check.max_error:.0e}, {check.verdict}"
    )

# %% [markdown]
# ## Leaving the range
#
# A head is certified on |s| ≤ radius. Six times the initial weights and a radius of 4:

# %%
large = [(6 * W, b) for W, b in init]
tight = icgd.compile(net, icgd.SGD(lr=0.001), radius=4.0)
try:
    tight.run(X, Y, init=large)
except icgd.AssumptionViolated as stopped:
    print(stopped)

# %% [markdown]
# Without the watch the run continues and silently returns something other than SGD's result, which is why the
# watch is on by default:

# %%
loose = icgd.compile(net, icgd.SGD(lr=0.001))
free, right = tight.run(X, Y, init=large, watch=False), loose.run(X, Y, init=large)
apart = max(
    float((a - b).abs().max()) for (a, _), (b, _) in zip(free.weights, right.weights, strict=True)
)
print(
    f"largest query in units of the radius of 4: {right.range_use * 1024 / 4:.1f}; weights off by {apart:.1f}"
)

# %% [markdown]
# ## What is not caught
#
# A change that stays within the certificate is not an error: the bound of a head allows for every kind of
# rounding, so a one per cent change in the temperature passes.

# %%
warmer = copy.deepcopy(program)
with torch.no_grad():
    attention = warmer.step.attention
    attention.linear.mul_(1.01)
    attention.quadratic.mul_(1.01)
check = icgd.verify(warmer, X, Y, init=init)
print(
    "temperature 1% lower:",
    check.passed,
    f"error {check.max_round_error:.0e}, bound {check.round_bound:.0e}",
)
