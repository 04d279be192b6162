"""Program: the one type of every construction. Frozen layers, a mask rule, and how to feed them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin, snapshot_download
from torch import Tensor, nn

from icgd.base.construction import Construction
from icgd.base.growth import Growth
from icgd.errors import AssumptionViolated, InvalidFile, InvalidParameter
from icgd.problems.foreign_optimizers import refuse_unknown
from icgd.transformer.blocks import Block
from icgd.transformer.certificate import Certificate
from icgd.transformer.layout import Layout
from icgd.transformer.mask_rules import ENTER, Address, MaskRule, Step
from icgd.transformer.nn.frozen_layer import FrozenLayer
from icgd.transformer.nn.symbolic import once_fixed, weights_stay_fixed
from icgd.transformer.program import files
from icgd.transformer.program.accounting import range_watch, run_cost
from icgd.transformer.program.blueprint import Blueprint
from icgd.transformer.program.card import card_of
from icgd.transformer.program.progress import progress_reporter
from icgd.transformer.program.recording import growth_of, outline_of
from icgd.transformer.program.run import Run
from icgd.transformer.program.session import Codec, Dumped, Session
from icgd.transformer.program.weights import copied, refuse_overflow
from icgd.transformer.runtime.executors.chain import StructuredExecutor
from icgd.transformer.runtime.executors.choose import AnyExecutor, ExecutorName, choose_executor
from icgd.transformer.runtime.loop import BlockKeeper, Executor, LoopState, StepWatcher, execute
from icgd.transformer.runtime.recording.recorder import Recorder

Record = Literal["weights", "trace"] | Recorder | Callable[[int, Any], None]


class Program(nn.Module, PyTorchModelHubMixin, library_name="icgd", tags=["in-context-learning"]):
    """A frozen transformer compiled from (model, optimizer), with everything needed to run it.

    step         the layer that is applied again and again; its weights never change
    entry        layers applied once to the prompt, before the first step; None if there are none
    readout      the layer that predicts for new examples; None if `step` does that as well
    mask         which blocks each step of a round sees
    layout       named slots of a block
    codec        user data <-> blocks
    certificate  what one head promises
    construction, problem, optimizer, options  what it was compiled from
    """

    def __init__(
        self,
        blueprint: Blueprint,
        *,
        step: FrozenLayer,
        mask: MaskRule,
        layout: Layout,
        codec: Codec,
        certificate: Certificate,
        readout: FrozenLayer | None = None,
        entry: FrozenLayer | None = None,
    ) -> None:
        super().__init__()
        self.step = step
        self.entry, self.readout = entry, readout
        self.construction: Construction = blueprint.construction
        self.problem, self.optimizer = blueprint.problem, blueprint.optimizer
        self.options, self._fitted = dict(blueprint.options), dict(blueprint.fitted)
        self.mask, self.layout, self.codec = mask, layout, codec
        self.certificate = certificate
        self._compiled_mask, self._compiled_dtype = mask, blueprint.dtype
        self.requires_grad_(False)

    @property
    def blueprint(self) -> Blueprint:
        """All that is needed to build the same program again."""
        return Blueprint(
            self.construction,
            self.problem,
            self.optimizer,
            self.options,
            self._compiled_dtype,
            self._fitted,
        )

    @property
    def config(self) -> dict[str, Any]:
        """The same as numbers, names and lists, for files."""
        return self.blueprint.config

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return self.step.like.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.step.like.device

    @property
    def radius(self) -> float:
        """The range |s| <= radius in which every head is certified."""
        return self.step.radius

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"Program({self.construction.name}, {self.problem!r}, {self.optimizer!r}, {options})"

    # -- running ----------------------------------------------------------------------------------

    def run(
        self,
        X: Any,
        Y: Any,
        *,
        init: Any = None,
        epochs: int | None = None,
        steps: int | None = None,
        query: Any = None,
        executor: ExecutorName = "structured",
        record: Record | None = None,
        progress: bool | Callable[[int, int], None] = False,
        watch: bool = True,
        **unknown: Any,
    ) -> Run:
        """Train in context.

        X, Y      (n, d) and (n, k), or (b, n, d) and (b, n, k) for b problems at once; targets of a
                  linear model are (n,) or (b, n)
        init      initial weights: [(W, b), ...] of a network, w of a linear model (default zero)
        epochs    for SGD: one round per row of X and epoch (default 1)
        steps     for GD: rounds in all, each on every row of X
        query     new examples that stand in the prompt beside the data, answered in `run.prediction`,
                  for programs compiled with room for them
        executor  "structured" (fast) or "dense" (literal matrices); stacks also "sparse"
        record    "weights": keep the weights after every round; "trace": keep every block; an
                  icgd.Recorder: record what happens inside the layer, for the viewer; a function of
                  (round, weights) is called after every round and must not keep the tensors
        progress  True for a progress bar, or a function of (rounds done, rounds in all)
        watch     False: heads may be asked anything, also outside their certified range
        """
        refuse_unknown("program.run", unknown)
        known = record in (None, "weights", "trace") or isinstance(record, Recorder)
        if isinstance(record, type) or not (callable(record) or known):
            raise InvalidParameter(
                "record", record, "be None, 'weights', 'trace', an icgd.Recorder or a function"
            )
        self._check_dtype()
        with weights_stay_fixed(), self._own_precision():
            rounds = {"epochs": epochs, "steps": steps}
            session = self.codec.session(
                X, Y, init=init, padded=self._is_altered(), query=query, **rounds
            )
            growth = growth_of(self, session, rounds)
            return self._train(session, executor, record, progress, watch, growth)

    def _train(
        self,
        session: Session,
        executor: ExecutorName,
        record: Record | None,
        progress: bool | Callable[[int, int], None],
        watch: bool,
        growth: Growth,
    ) -> Run:
        state, history = LoopState(), list[Any]()
        if self.entry is not None:
            session = replace(session, prompt=self._entered(session, executor, watch))
        # Plans update weights in place only where every part is known to read them first.
        recorder = record if isinstance(record, Recorder) else None
        keeper = BlockKeeper() if record == "trace" else None
        keep_all = recorder is not None or keeper is not None or self._is_altered()
        engine = self.executor(session, executor, keep_all=keep_all, state=state)
        if not watch:
            engine.watch.release()
        if recorder is not None:
            recorder.begin(outline_of(self, session, executor))

        def weights_now() -> Any:
            return session.decode({a: engine.dump(block) for a, block in state.live.items()})

        with progress_reporter(progress, session.n_rounds) as report:

            def on_round(done: int) -> None:
                if record == "weights":
                    history.append(copied(weights_now()))
                    growth.after_round(done, history)
                elif keeper is not None:
                    growth.after_round(done, keeper.entries)
                elif recorder is not None:
                    recorder.end_round(done, weights_now(), engine.watch)
                    if recorder.after_round is not None:
                        recorder.after_round(done, weights_now())
                elif callable(record):
                    record(done, weights_now())
                if report is not None:
                    report(done, session.n_rounds)

            watched = report is not None or record is not None
            self._loop(
                self.mask.steps(),
                session,
                engine,
                state,
                watcher=recorder or keeper,
                on_round=on_round if watched else None,
            )
        weights, answers = copied(weights_now()), None
        if session.answers:
            answers = self._answer(session, engine, state, executor)
        if watch:
            remedy = (
                f"Training diverged in {state.rounds} rounds: lower lr or standardise the data."
            )
            refuse_overflow(self.construction.name, "weights", weights, remedy)
            refuse_overflow(self.construction.name, "prediction", answers, remedy)
        return Run(
            program=self,
            weights=weights,
            prediction=answers,
            cost=run_cost(self, session, state),
            range_use=engine.watch.max_use,
            near_kink=engine.watch.near_kink,
            executor=executor,
            history=history if record == "weights" else None,
            trace=[] if keeper is None else keeper.entries,
        )

    def _entered(
        self, session: Session, executor: ExecutorName, watch: bool
    ) -> dict[Address, Block]:
        """The prompt as the first step finds it."""
        engine, state = self.executor(session, executor, layer=self.entry), LoopState()
        if not watch:
            engine.watch.release()
        with torch.no_grad():
            execute([ENTER], session.prompt, [{}], engine, state=state)
        return {address: engine.dump(block) for address, block in state.live.items()}

    def _answer(
        self, session: Session, engine: AnyExecutor, state: LoopState, executor: ExecutorName
    ) -> Tensor:
        """The read-out layers on the final state, at the tokens that ask."""
        reader, last = self.executor(session, executor, layer=self.readout), LoopState()
        blocks = {address: engine.dump(block) for address, block in state.live.items()}
        steps = self.mask.forward_steps()
        with torch.no_grad():
            execute(steps, blocks, [{}], reader, state=last)
        block = reader.dump(last.live[steps[-1].writes])
        answers = self.codec.output_of(block)[..., -session.answers :, :]
        return answers if session.shaped is None else session.shaped(answers)

    def predict(
        self,
        X: Any,
        weights: Any,
        *,
        executor: ExecutorName = "structured",
        watch: bool = True,
        **unknown: Any,
    ) -> Tensor:
        """The transformer's own predictions with given weights, one per row of X."""
        refuse_unknown("program.predict", unknown)
        self._check_dtype()
        with weights_stay_fixed(), self._own_precision():
            session, address = self.codec.prediction(X, weights, padded=self._is_altered())
            state, outputs = LoopState(), list[Tensor]()
            engine = self.executor(session, executor, state=state, layer=self.readout)
            if not watch:
                engine.watch.release()

            def on_round(done: int) -> None:
                outputs.append(self.codec.output_of(engine.dump(state.live[address])))

            self._loop(self.mask.forward_steps(), session, engine, state, on_round=on_round)
        answers = self.codec.join(outputs, session)
        if watch:
            refuse_overflow(
                self.construction.name,
                "prediction",
                answers,
                "Lower the weights, or standardise the data.",
            )
        return answers

    def executor(
        self,
        session: Session,
        name: ExecutorName,
        *,
        keep_all: bool = False,
        state: LoopState | None = None,
        layer: FrozenLayer | None = None,
    ) -> AnyExecutor:
        """The engine that applies this program's layer (its step unless told) in a session."""
        watch, state = range_watch(self, session), state or LoopState()
        engine = choose_executor(
            layer or self.step,
            name,
            watch,
            layout=self.layout,
            n_columns=session.n_columns,
            batched=session.batched,
            keep_all=keep_all,
            wanted=session.wanted,
            advice=self.step.smaller,
        )
        rounding, literal = self.step.rounding, name == "dense"
        watch.exact_zero = rounding.exact_zero(literal=literal)
        watch.noise = lambda largest: rounding.noise(
            Dumped(engine, state.live), largest, literal=literal
        )
        return engine

    def _loop(
        self,
        steps: Sequence[Step],
        session: Session,
        engine: Executor,
        state: LoopState,
        *,
        watcher: StepWatcher | None = None,
        on_round: Callable[[int], None] | None = None,
    ) -> None:
        structured = engine if isinstance(engine, StructuredExecutor) else None
        with torch.no_grad():
            execute(
                steps,
                session.prompt,
                session.arrivals(structured),
                engine,
                state=state,
                watcher=watcher,
                on_round=on_round,
            )

    def _check_dtype(self) -> None:
        if self.dtype != self._compiled_dtype:
            compiled = str(self._compiled_dtype).removeprefix("torch.")
            raise AssumptionViolated(
                f"The program was compiled for {compiled} and its weights are {self.dtype}; gates and heads "
                f"are exact only in the precision they were compiled for. Recompile with dtype={self.dtype}."
            )

    def _own_precision(self) -> torch.autocast:
        """Autocast of the caller does not reach a program: it is exact only in its own precision."""
        return torch.autocast(self.device.type, enabled=False)

    @once_fixed
    def _is_altered(self) -> bool:
        """Whether anything differs from what was compiled: then zeros may not stay zeros.

        Smaller layers are computed without their padding only as long as it is provably zero.
        """
        if self.mask is not self._compiled_mask or not self.codec.is_plain():
            return True
        checks = [getattr(module, "is_plain", None) for module in self.modules()]
        return not all(check() for check in checks if check is not None)

    # -- files ------------------------------------------------------------------------------------

    def save_pretrained(self, save_directory: str | Path, **kwargs: Any) -> str | None:
        """Write model.safetensors, config.json (slot names included) and a model card, atomically."""
        return files.save(self, Path(save_directory), super().save_pretrained, **kwargs)

    def generate_model_card(self, *args: Any, **kwargs: Any) -> ModelCard:
        """README.md: what the program is and how it is run."""
        return card_of(self)

    def _save_pretrained(self, save_directory: Path) -> None:
        files.write_weights(self, save_directory)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        allow_altered: bool = False,
        **kwargs: Any,
    ) -> Program:
        """Load a program from a directory, or from the Hub ("user/repo") if there is no such directory.

        Nothing is unpickled: only config.json and model.safetensors are read. Weights that are not the
        ones the config compiles to, and files that were changed after saving, are refused unless
        `allow_altered`; further keyword arguments go to `huggingface_hub.snapshot_download`.
        """
        path = files.find(pretrained_model_name_or_path, snapshot_download, **kwargs)
        program = files.load(path, allow_altered=allow_altered)
        if not allow_altered and program._is_altered():
            raise InvalidFile(
                f"The weights in {path / files.WEIGHTS} are not the ones {files.CONFIG} compiles to: the "
                "directory is damaged or was edited. Save again, or pass allow_altered=True."
            )
        return program
