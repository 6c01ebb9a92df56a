"""Names for the demo's conversations: real ones, and invented ones without end, so that copying has to be learned.

One invented word in eight is held out: training never shows it, the evaluation asks for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

CITIES = (
    "Oslo Paris Lima Rome Berlin Madrid Tokyo Kyoto Cairo Nairobi Lagos Accra Boston Chicago Denver Austin Seattle "
    "Toronto Montreal Quito Bogota Santiago Bergen Stockholm Helsinki Tallinn Riga Vilnius Warsaw Prague Vienna "
    "Zurich Geneva Milan Naples Athens Sofia Bucharest Budapest Belgrade Zagreb Lisbon Porto Dublin London Leeds "
    "Glasgow Cardiff Brussels Antwerp Amsterdam Utrecht Hamburg Munich Cologne Dresden Lyon Nice Marseille Seville "
    "Valencia Istanbul Ankara Tbilisi Baku Tehran Delhi Mumbai Chennai Dhaka Hanoi Bangkok Jakarta Manila Seoul "
    "Busan Taipei Osaka Sapporo Beijing Shanghai Perth Sydney Hobart Auckland Wellington Dakar Tunis Rabat Havana "
    "Kingston Panama Caracas Montevideo Asuncion Reykjavik Bern Graz Linz Malmo Aarhus Copenhagen"
).split()
LONG_CITIES = ("New York", "San Francisco", "Buenos Aires", "Cape Town", "Hong Kong", "São Paulo", "Rio de Janeiro")
PREFIXES = ("New", "San", "Port", "Upper", "Lake", "Fort")
PEOPLE = (
    "Ada Alan Alice Anna Ben Bob Carl Clara Dana David Ella Emma Erik Eva Finn Grace Hana Hugo Ida Ines Ivan Jan "
    "Jana John Jonas Karl Kate Lars Lea Lena Leo Lina Lucas Maja Maria Mark Marta Max Mia Nils Nina Noah Nora Olga "
    "Oscar Otto Paul Pia Rosa Sam Sara Simon Sofia Theo Tim Tom Vera Victor Yara Zoe"
).split()
THINGS = (
    "apple bread bridge camera candle carpet chair clock coffee copper cotton engine garden guitar hammer honey "
    "iron jacket kettle ladder lamp lemon library map marble mirror museum ocean oven paper pencil piano planet "
    "river rocket saddle salmon ship silver spider stone sugar table tea tiger tower train violin wagon wheat window"
).split()
KINDS = "old new red blue green small large cheap quiet wild warm cold fast wooden local modern".split()

_ONSETS = "b bl br c ch d dr f fl g gl gr h j k kl kr l m n p pl pr qu r s sh sk st t th tr v w y z".split()
_VOWELS = "a a a e e e i i i o o o u u y ai ea ei ie ou".split()
_ACCENTED = "å ä ö ø é ü ó í ñ".split()
_CODAS = "b d f g k l l m n n n nd ng nt p r r rk rn s s sk st t th v x z".split()
_HELD_OUT_SHARE = 8


def is_held_out(word: str) -> bool:
    return zlib.crc32(word.lower().encode()) % _HELD_OUT_SHARE == 0


class Words:
    """Draws names.  With ``held_out``, every invented word is one that training never shows."""

    def __init__(self, rng: Random, held_out: bool) -> None:
        self.rng = rng
        self.held_out = held_out

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def invented(self) -> str:
        """A word in lower case."""
        while True:
            word = "".join(self._syllable() for _ in range(self.rng.choice((1, 2, 2, 2, 3))))
            if len(word) > 2 and is_held_out(word) == self.held_out:
                return word

    def _syllable(self) -> str:
        vowel = self.choice(_ACCENTED if self.chance(0.03) else _VOWELS)
        return self.choice(_ONSETS) + vowel + (self.choice(_CODAS) if self.chance(0.5) else "")

    def name(self) -> str:
        """An invented name."""
        return self.invented().capitalize()

    def place(self) -> str:
        pick = self.rng.random()
        if pick < 0.4:
            city = self.choice(CITIES)
            return city.lower() if self.chance(0.06) else city
        if pick < 0.45:
            return self.choice(LONG_CITIES)
        if pick < 0.55:
            return self.choice(PREFIXES) + " " + self.name()
        return self.name()

    def person(self) -> str:
        first = self.choice(PEOPLE) if self.chance(0.6) else self.name()
        return f"{first} {self.name()}" if self.chance(0.4) else first

    def thing(self) -> str:
        pick = self.rng.random()
        if pick < 0.4:
            return self.choice(THINGS)
        return self.invented() if pick < 0.8 else f"{self.choice(KINDS)} {self.choice(THINGS)}"

    def subject(self) -> str:
        """What someone may search for: one to four words."""
        n_words = self.rng.choice((1, 2, 2, 3, 4))
        words = [self.choice((self.thing, self.thing, self.name, self.invented))() for _ in range(n_words)]
        return " ".join(words)

    def code(self) -> str:
        """An identifier as orders and tickets have."""
        letters = "".join(self.choice("ABCDEFGHKLMNPRSTXYZ") for _ in range(self.rng.choice((1, 2, 3))))
        return letters + self.choice(("", "-", "-")) + str(self.number())

    def number(self) -> int:
        return self.rng.randrange(10 ** self.rng.choice((1, 2, 2, 3, 3, 4)))
