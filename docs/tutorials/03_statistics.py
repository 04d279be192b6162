# %% [markdown]
# # Linear models: one prompt, one layer, a theorem
#
# A frozen softmax layer fits ridge regression, the lasso and logistic regression on the examples in its
# prompt. This page looks at the prompt and compares a run with the theorem. [The tutorial for scikit-learn
# users](../tutorial_statistics.md) does the same through scikit-learn's interface.

# %%
import matplotlib.pyplot as plt
import torch

import icgd

generator = torch.Generator().manual_seed(0)
X = torch.randn(40, 4, generator=generator, dtype=torch.float64)
truth = torch.tensor([1.5, -1.0, 0.0, 0.0], dtype=torch.float64)
y = X @ truth + 0.3 * torch.randn(40, generator=generator, dtype=torch.float64)

# %% [markdown]
# ## The prompt
#
# The examples are tokens [x | y | w | 1]; w is the same in all of them. A step sees the last block and
# appends the same examples with the next w. There is one head per example: it compares x with w and returns
# (w·x − y)·x. `GD("auto")` would take the step size from the problem's radii; here it is 1/β from the data.

# %%
problem = icgd.Ridge(4, lam=0.1)
alpha, beta = problem.constants_on(X, 1.0)
program = icgd.compile(problem, icgd.GD(lr=1 / beta))
print("slots of a token:", ", ".join(f"{slot.name}{list(slot.shape)}" for slot in program.layout))
print(f"curvature between {alpha:.3f} and {beta:.3f}, so kappa = {beta / alpha:.2f}")
run = program.run(X, y, steps=30, record="weights")
print("w after 30 steps:", [round(float(w), 4) for w in run.weights])

# %% [markdown]
# ## Against the exact minimiser
#
# Ridge regression has a formula. The theorem ([COT] Theorems 3.1 and 3.2) promises
# $|w_L - w^*| \le L\,\varepsilon + e^{-L/(2\kappa)}\, |w^*|$ after $L$ steps at step size $1/\beta$,
# where $\varepsilon$ is what one step of the transformer may be off. `icgd.verify` computes every constant.

# %%
exact = torch.linalg.solve(X.T @ X / 40 + 0.1 * torch.eye(4, dtype=torch.float64), X.T @ y / 40)
print(
    f"the formula and the transformer differ by {float((exact - run.weights).abs().max()):.1e} after 30 steps"
)
check = icgd.verify(program, X, y, steps=30)
print("passed", check.passed)
print(
    f"largest distance to exact gradient descent: {check.max_error:.0e}, bound {check.global_bound:.0e}"
)
for record in check.rounds[::10]:
    print(
        f"step {record.step:2}: {record.distance:.6f} from the minimiser, theorem {record.theorem:.6f}"
    )

# %%
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
steps = [record.step for record in check.rounds]
axes.semilogy(
    steps, [record.theorem for record in check.rounds], "--", color="#d55e00", label="theorem"
)
axes.semilogy(
    steps, [record.distance for record in check.rounds], color="#0072b2", label="the transformer"
)
axes.set(xlabel="steps", ylabel="distance to the minimiser", title="Ridge regression in context")
axes.legend(frameon=False)
axes.grid(alpha=0.3)

# %% [markdown]
# ## The lasso: zeros that are zeros
#
# The soft-threshold relu(w − c) − relu(−w − c) sits in the feed-forward layer. It is exact, so coefficients
# are zero and not merely small.

# %%
lasso = icgd.compile(icgd.Lasso(4, lam=0.2), icgd.GD(lr=1 / beta))
path = lasso.run(X, y, steps=60, record="weights").history
print("final:", [round(float(w), 4) for w in path[-1]], " exact zeros:", int((path[-1] == 0).sum()))
assert path[-1][2] == 0
assert path[-1][3] == 0

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
for j, curve in enumerate(torch.stack(path).T):
    axes.plot(range(1, 61), curve, label=f"w{j + 1}")
axes.set(xlabel="steps", ylabel="coefficient", title="Coefficient paths of the lasso")
axes.legend(frameon=False, ncols=4)
axes.grid(alpha=0.3)

# %% [markdown]
# ## Logistic regression: a softmax is a sigmoid
#
# The slope of the logistic loss is a sigmoid, and a softmax over two tokens is one. No grid is needed, and no
# range. (Without a penalty, classes that a plane separates have no minimiser to compare with.)

# %%
labels = (y > 0).to(torch.float64)
model = icgd.GLM(4, "logistic", lam=0.05)
_, beta = model.constants_on(X, 1.0)
logistic = icgd.compile(model, icgd.GD(lr=1 / beta))
check = icgd.verify(logistic, X, labels, steps=40)
right = (logistic.run(X, labels, steps=40).predict(X).reshape(-1) > 0.5) == (labels > 0.5)
print(
    "passed",
    check.passed,
    f" largest error of a step {check.max_round_error:.0e}",
    f" accuracy {right.double().mean():.2f}",
)

# %% [markdown]
# ## A loss of your own
#
# Any smooth slope is one head with fitted values; the certificate says how well the fit does. Here a square
# near 0 that grows like |r| further out, so that a few wild targets do not dominate the fit.

# %%
robust = icgd.residual_loss(lambda r: torch.sqrt(1 + r * r) - 1, "pseudo-Huber")
model = icgd.LinearModel(4, robust)
_, beta = model.constants_on(X, 8.0, y_radius=8.0)
program = icgd.compile(model, icgd.GD(lr=1 / beta), radius=8.0, n_grid=128)
check = icgd.verify(program, X, y, steps=30)
print("passed", check.passed, f" certified slope error {program.certificate.sup_error:.0e}")
