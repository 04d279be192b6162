"""What kind of error each entry of the errata is: one register for table, pages and tests.

"It fails as printed" can mean anything from a sign to a false theorem, so every entry has a class,
and the class says what evidence the entry owes:

false    a counterexample under the statement's own hypotheses; what is left claims less
slip     an index, a sign, a constant, a size: mended, the statement claims what it was meant to
reading  depends on how the text is read, or on a formula lost in it; a reading under which the
         statement holds has a passing test of its own
float    exact over the reals, fails in floating point
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from icgd.errors import InvalidParameter

ErratumClass = Literal["false", "slip", "reading", "float"]
CLASSES: tuple[ErratumClass, ...] = get_args(ErratumClass)
"""From the strongest verdict to the weakest: a statement is as wrong as its worst part."""


@dataclass(frozen=True)
class Erratum:
    """One entry of a page of errata.

    kind  its class
    test  for a reading: the test in which the statement holds when read the other way
    """

    kind: ErratumClass
    test: str = ""

    def __post_init__(self) -> None:
        if self.kind not in CLASSES:
            raise InvalidParameter("kind", self.kind, f"be one of {', '.join(CLASSES)}")
        if (self.kind == "reading") != bool(self.test):
            raise InvalidParameter(
                "test",
                self.test,
                "name the test of the other reading, for the class `reading` and for no other",
            )


COT: dict[str, Erratum] = {
    "1": Erratum("slip"),
    "2": Erratum("slip"),
    "3": Erratum("slip"),
    "4": Erratum("reading", "test_own_selectors_read_the_weights"),
    "5": Erratum("reading", "test_blocks_are_enough_without_a_bias"),
    "6": Erratum("slip"),
    "7": Erratum("slip"),
    "8": Erratum("reading", "test_forward_step_holds_outside_the_kink"),
    "9": Erratum("float"),
    "10": Erratum("slip"),
    "11": Erratum("slip"),
    "12": Erratum("slip"),
    "13": Erratum("reading", "test_backward_layer_with_a_feed_forward_in_front"),
    "14": Erratum("float"),
    "15": Erratum("slip"),
    "16": Erratum("slip"),
    "17": Erratum("slip"),
    "18": Erratum("slip"),
    "19": Erratum("slip"),
    "20": Erratum("slip"),
    "21": Erratum("false"),
    "22": Erratum("false"),
    "23": Erratum("reading", "test_a_more_accurate_layer_keeps_the_linear_bound"),
    # 24 is withdrawn: 2N + 1 calls are counted where a round makes 2N, and the bound holds with room.
    "25": Erratum("reading", "test_own_gap_bounds_the_head"),
    "26": Erratum("slip"),
    "27": Erratum("reading", "test_a_layer_for_every_eps"),
    "28": Erratum("reading", "test_one_head_per_sample_adds_up"),
    "29": Erratum("false"),
    "30": Erratum("slip"),
    "31": Erratum("false"),
    "32": Erratum("slip"),
    "33": Erratum("slip"),
    "34": Erratum("slip"),
    "35": Erratum("false"),
    "36": Erratum("false"),
    "37": Erratum("reading", "test_equal_starts_stay_together"),
    "38": Erratum("slip"),
    "39": Erratum("reading", "test_saving_of_n_with_cost_linear_in_d"),
    "40": Erratum("false"),
    "41": Erratum("slip"),
    "42": Erratum("slip"),
    "43": Erratum("slip"),
    "44": Erratum("slip"),
}

DEEP: dict[str, Erratum] = {
    "D2": Erratum("slip"),
    "D3": Erratum("reading", "test_relu_networks_are_not_covered_and_work"),
    "D4": Erratum("slip"),
    "D5": Erratum("slip"),
    "D6": Erratum("slip"),
    "D7": Erratum("reading", "test_plain_layers_multiply_with_an_error"),
    "D8": Erratum("reading", "test_order_of_composition"),
    "D9": Erratum("false"),
    "D10": Erratum("reading", "test_slots_after_a_step"),
    "D11": Erratum("reading", "test_norms_by_another_scale"),
    "D12": Erratum("slip"),
    "D13": Erratum("reading", "test_a_stack_is_linear_in_the_examples_if_sums_are_collapsed"),
    "D14": Erratum("slip"),
    "D15": Erratum("slip"),
    "D16": Erratum("slip"),
    "D17": Erratum("slip"),
    "D18": Erratum("slip"),
    "D19": Erratum("reading", "test_scores_need_a_linear_output"),
    "F1": Erratum("reading", "test_no_label_collides_and_centres_are_exact"),
    "F2": Erratum("false"),
    "F3": Erratum("slip"),
    "F4": Erratum("slip"),
    "F5": Erratum("reading", "test_mean_gradient_keeps_every_step"),
    "F6": Erratum("reading", "test_equal_tokens_become_rare"),
    "G1": Erratum("reading", "test_narrow_networks_survive_a_negative_shift"),
    "G3": Erratum("reading", "test_r2_is_pooled_over_prompts"),
}

BRIDGE: dict[str, Erratum] = {
    "T1": Erratum("reading", "test_relu_units_project_onto_a_box"),
    "T2": Erratum("reading", "test_only_the_weights_change"),
    "T4": Erratum("slip"),
    "T5": Erratum("slip"),
    "T6": Erratum("reading", "test_by_the_matrix_form_the_forward_heads_are_right"),
    "T7": Erratum("false"),
    "T8": Erratum("slip"),
    "T9": Erratum("slip"),
    "T10": Erratum("slip"),
    "B1": Erratum("reading", "test_sums_that_decay_and_are_not_zero"),
    "B2": Erratum("false"),
    "B4": Erratum("slip"),
    "B5": Erratum("slip"),
    "B6": Erratum("slip"),
    "B7": Erratum("reading", "test_theorem_3_at_a_fixed_dimension"),
    "B8": Erratum("reading", "test_theorem_4_for_small_eps"),
    "B10": Erratum("reading", "test_a_fit_of_the_product_keeps_its_promise"),
}

ALGO: dict[str, Erratum] = {
    "E1": Erratum("reading", test="test_softmax_over_keys_is_meant"),
    "1": Erratum("slip"),
    "4": Erratum("reading", test="test_a_row_of_its_own_descends"),
    "6": Erratum("slip"),
    "8": Erratum("reading", test="test_reading_out_with_indicators_keeps_the_labels"),
    "10": Erratum("float"),
    "11": Erratum("reading", test="test_predictions_are_those_of_gradient_descent"),
    "C1": Erratum("reading", test="test_stored_codes_copy_exactly"),
    "C2": Erratum("reading", test="test_stored_codes_copy_exactly"),
    "S1": Erratum("reading", test="test_the_neighbour_layer_brings_the_label"),
    "S2": Erratum("reading", test="test_one_more_token_asks_for_the_future"),
    "S3": Erratum("reading", test="test_a_series_that_began_at_rest_has_no_bias"),
    "S4": Erratum("slip"),
    "S5": Erratum("reading", test="test_default_layers_keep_the_series_small"),
    "M1": Erratum("reading", test="test_reversible_means_inverting_the_targets"),
    "M2": Erratum("reading", test="test_the_first_layers_are_the_representation"),
    "M3": Erratum("slip"),
    "N1": Erratum("false"),
    "N2": Erratum("reading", test="test_one_alpha_serves_all_data_within_a_radius"),
    "N3": Erratum("reading", test="test_a_row_of_examples_starts_newton"),
    "N4": Erratum("reading", test="test_newton_in_rows_of_its_own"),
    "N5": Erratum("reading", test="test_newton_in_rows_of_its_own"),
    "N6": Erratum("float"),
    "P1": Erratum("slip"),
    "P2": Erratum("reading", test="test_stars_are_multiplied_by_zero"),
    "P3": Erratum("slip"),
}

LSA: dict[str, Erratum] = {}

ERRATA: dict[str, dict[str, Erratum]] = {
    "COT": COT,
    "DEEP": DEEP,
    "BRIDGE": BRIDGE,
    "ALGO": ALGO,
    "LSA": LSA,
}
"""Paper, then entry as numbered on its page, then its class."""


def erratum(name: str) -> Erratum:
    """The entry that a row of the theorem table names, such as "COT 29" or "BRIDGE B3"."""
    paper, _, number = name.partition(" ")
    try:
        return ERRATA[paper][number]
    except KeyError:
        raise InvalidParameter(
            "errata", name, "name an entry as 'PAPER NUMBER', for example 'COT 29'"
        ) from None


def strongest(names: Iterable[str]) -> ErratumClass | None:
    """The class of a statement with these entries; None if there are none."""
    kinds = {erratum(name).kind for name in names}
    return next((kind for kind in CLASSES if kind in kinds), None)


def counts(paper: str) -> dict[ErratumClass, int]:
    """How many entries of a paper's errata are of each class."""
    tally = Counter(entry.kind for entry in ERRATA[paper].values())
    return {kind: tally[kind] for kind in CLASSES}
