"""How texts are sampled. No TensorFlow here: flags are made of it."""

import dataclasses
from typing import Any, Literal, get_args

from keras_bert.choices import check_choice
from keras_bert.counts import check_count, check_temperature, needed_count

GenerationMethod = Literal["gibbs", "metropolis_hastings", "annealing"]
VisitingOrder = Literal["sequential", "random", "parallel"]
Start = Literal["mask", "random", "text"]
Energy = Literal["raw", "normalized"]

# Random numbers are numbered by sweep and by step of a sweep, see draws.py.
MAX_SWEEPS = 1 << 24


@dataclasses.dataclass(frozen=True)
class GenerationOptions:
    """How a masked language model samples what stands in the blanks of a text.

    A sweep samples every blank once.

    Attributes:
        method: gibbs draws from what the model expects in a blank (Wang and Cho 2019);
            metropolis_hastings accepts or rejects such draws by the energy of the whole text (Goyal
            et al. 2022); annealing does so while it cools down and gives the best text it met.
        order: in which blanks are sampled: sequential is left to right, random a new order for each
            sweep, parallel all at once from the text as it stands (gibbs alone).
        sweeps: how often every blank is sampled.
        burn_in: sweeps of gibbs before top_k comes into effect; until then pieces are drawn from
            the whole distribution.
        top_k: gibbs draws from so many of the likeliest pieces after the burn-in: 1 takes the
            likeliest, 0 draws from all.
        temperature: divides the logits, and of metropolis_hastings and annealing the energy too:
            below 1 likely texts become likelier; annealing begins with it. At least 1e-6.
        final_temperature: annealing ends with it.
        energy: of metropolis_hastings and annealing: raw sums the logits of the pieces, normalized
            their log-probabilities, each piece masked alone.
        start: what stands in the blanks at first: mask is [MASK], random are random pieces; text
            samples all pieces of a text without [MASK], from what they are.

    Raises:
        ValueError: a value is unknown, out of its range, or of no use to the method.
    """

    method: GenerationMethod = "gibbs"
    order: VisitingOrder = "sequential"
    sweeps: int = 20
    burn_in: int = 0
    top_k: int = 0
    temperature: float = 1.0
    final_temperature: float = 0.05
    energy: Energy = "normalized"
    start: Start = "mask"

    def __post_init__(self) -> None:
        check_choice("method", self.method, GenerationMethod)
        check_choice("order", self.order, VisitingOrder)
        check_choice("energy", self.energy, Energy)
        check_choice("start", self.start, Start)
        needed_count("sweeps", self.sweeps, most=MAX_SWEEPS)
        needed_count("burn_in", self.burn_in, least=0)
        check_count("top_k", self.top_k, least=0)
        for name in ("temperature", "final_temperature"):
            check_temperature(name, getattr(self, name))
        if self.burn_in and not self.top_k:
            raise ValueError(
                f"burn_in is {self.burn_in} but top_k is 0, so nothing would change after it: give "
                "top_k, or leave burn_in out"
            )
        if self.burn_in >= self.sweeps:
            raise ValueError(
                f"burn_in is {self.burn_in} of {self.sweeps} sweeps: leave sweeps behind it"
            )
        if self.method != "annealing" and self.final_temperature != _default("final_temperature"):
            raise ValueError(
                f"final_temperature is {self.final_temperature}, and {self.method} keeps its "
                "temperature: it is for annealing"
            )
        if self.method == "annealing" and self.final_temperature > self.temperature:
            raise ValueError(
                f"annealing cools down, from temperature {self.temperature} to final_temperature "
                f"{self.final_temperature}: give a lower one for the end"
            )
        if self.method == "gibbs":
            if self.energy != _default("energy"):
                raise ValueError(
                    f"energy is {self.energy!r}, and gibbs has none: it is for metropolis_hastings "
                    "and annealing"
                )
            return
        if self.top_k:
            raise ValueError(
                f"top_k is for gibbs: {self.method} is exact only where every piece may be "
                "proposed; leave it out, or give a lower temperature"
            )
        if self.order == "parallel":
            raise ValueError(
                f"order=parallel is for gibbs: {self.method} changes one piece at a time; give "
                f"{' or '.join(name for name in get_args(VisitingOrder) if name != 'parallel')}"
            )

    def temperature_of(self, sweep: int) -> float:
        """Returns the temperature of a sweep, from 0 up.

        Annealing cools down geometrically, by the same factor from sweep to sweep (Kirkpatrick et
        al. 1983, "Optimization by Simulated Annealing"); the others keep theirs.
        """
        if self.method != "annealing" or self.sweeps == 1:
            return self.temperature
        ratio = self.final_temperature / self.temperature
        return self.temperature * ratio ** (sweep / (self.sweeps - 1))


def _default(name: str) -> Any:
    return GenerationOptions.__dataclass_fields__[name].default
