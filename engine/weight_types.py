"""The weight types of the GGUF format: which this engine reads, and how they pack values into blocks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightType:
    """A block of a type is ``block_values`` values in ``block_bytes`` bytes."""

    name: str
    block_values: int
    block_bytes: int


WEIGHT_TYPES = {
    0: WeightType("F32", 1, 4),
    1: WeightType("F16", 1, 2),
    2: WeightType("Q4_0", 32, 18),
    3: WeightType("Q4_1", 32, 20),
    6: WeightType("Q5_0", 32, 22),
    7: WeightType("Q5_1", 32, 24),
    8: WeightType("Q8_0", 32, 34),
    11: WeightType("Q3_K", 256, 110),
    12: WeightType("Q4_K", 256, 144),
    13: WeightType("Q5_K", 256, 176),
    14: WeightType("Q6_K", 256, 210),
    20: WeightType("IQ4_NL", 32, 18),
    23: WeightType("IQ4_XS", 256, 136),
    30: WeightType("BF16", 1, 2),
}

UNSUPPORTED_NAMES = {
    9: "Q8_1",
    10: "Q2_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    21: "IQ3_S",
    22: "IQ2_S",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
}
