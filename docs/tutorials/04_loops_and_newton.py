# %% [markdown]
# # Loops and Newton's method
#
# A looped transformer prepares its prompt once, applies one layer T times and reads off an answer. This page
# compiles three for least squares, gradient descent, Newton's method and gradient descent with a
# preconditioner, and runs them on data where plain descent is slow.

# %%
import matplotlib.pyplot as plt
import torch

import icgd

generator = torch.Generator().manual_seed(1)
n, d = 20, 5
X = torch.randn(n, d, generator=generator, dtype=torch.float64)
X[:, 0] *= 3.0
X[:, 1] *= 0.2
truth = torch.randn(d, generator=generator, dtype=torch.float64)
y = X @ truth + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
solution = torch.linalg.lstsq(X, y).solution
radius = float(X.norm(dim=1).max())
eigenvalues = torch.linalg.eigvalsh(X.T @ X / n)
print(f"condition number {float(eigenvalues[-1] / eigenvalues[0]):.0f}, largest |x| {radius:.2f}")

# %% [markdown]
# ## Three algorithms, one problem
#
# The number of examples is part of the problem, since 1/n is a weight of the layer. Pass new rows as
# `query=`. Newton's method starts from M₀ = αXᵀX; by default α follows from `x_radius`, which is safe and
# costs a few more loops.

# %%
problem = icgd.LinearRegression(n_features=d, n_examples=n, x_radius=1.01 * radius)
alpha = 1 / (n * float(eigenvalues[-1])) ** 2
programs = {
    "gradient descent": (icgd.compile(problem, icgd.GD(lr=1 / float(eigenvalues[-1]))), 60),
    "Newton": (icgd.compile(problem, icgd.Newton(alpha)), 30),
    "preconditioned": (
        icgd.compile(problem, icgd.PreconditionedGD(newton_steps=12, alpha=alpha)),
        60,
    ),
}
runs = {
    name: program.run(X, y, steps=steps, query=X[:1], record="weights")
    for name, (program, steps) in programs.items()
}
for name, run in runs.items():
    far = float((run.weights - solution).abs().max())
    print(f"{name:17} {len(run.history):2} loops: {far:.0e} from the solution")

# %%
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for name, run in runs.items():
    distance = [float((w - solution).abs().max()) for w in run.history]
    axes.semilogy(range(1, len(distance) + 1), distance, label=name)
axes.set(
    xlabel="loops",
    ylabel="distance to the solution",
    title="Three looped transformers on the same prompt",
)
axes.legend(frameon=False)
axes.grid(alpha=0.3)

# %% [markdown]
# Newton's method doubles the number of correct digits in every loop once it is close; in the flat part before,
# M grows from M₀. Twelve of its steps give a preconditioner that makes descent several times as fast.
# Newton's own curve ends at rounding.
#
# ## Verify
#
# The verdict is the largest distance to the exact algorithm in any loop, and a bound on it.

# %%
for name, (program, steps) in programs.items():
    if name == "preconditioned":
        continue  # held against the exact recursion below
    check = icgd.verify(program, X, y, steps=steps)
    print(
        f"{name:17} passed {check.passed}, error {check.max_error:.0e}, bound {check.global_bound:.0e}"
    )

# %% [markdown]
# For the preconditioned loop the exact recursion is a few lines of PyTorch.

# %%
S = X.T @ X
M = alpha * S
for _ in range(12):
    M = 2 * M - M @ S @ M
w = torch.zeros(d, dtype=torch.float64)
for _ in range(60):
    w = w - M @ (X.T @ (X @ w - y))
print(f"preconditioned    error {float((runs['preconditioned'].weights - w).abs().max()):.0e}")

# %% [markdown]
# ## What the published heads would give
#
# Everything in a loop is made of one product, a sum of values times inner products. The paper takes it from
# two softmax heads in their linear range; that costs half the digits, because a small scale c cannot become
# arbitrarily small in floating point. `mode=` chooses.

# %%
for mode in ("spectral", "four", "sym", "printed"):
    program = icgd.compile(problem, icgd.GD(lr=0.1), mode=mode)
    run = program.run(X, y, steps=20)
    w = torch.zeros(d, dtype=torch.float64)
    for _ in range(20):
        w = w - 0.1 * X.T @ (X @ w - y) / n
    print(f"{mode:9} {float((run.weights - w).abs().max()):.0e} from exact gradient descent")

# %% [markdown]
# ## Linear attention: one appended token a step
#
# The construction of [LSA] appends a token with the next weight vector at every step. It needs no softmax and
# no range.

# %%
chain = icgd.compile(problem, icgd.GD(lr=0.1), attention="linear").run(
    X, y, steps=20, record="weights"
)
print(
    f"chain of thought  {float((chain.weights - w).abs().max()):.0e}",
    f"({len(chain.history)} tokens appended)",
)
