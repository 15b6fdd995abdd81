"""The row `messages`: what tools/bench/rows/messages.py measures, a line for each thing that the hot APIs do."""

from collections.abc import Callable, Iterable, Sequence

from headgate.tools.bench.measuring.brokers import HEADGATE
from headgate.tools.bench.measuring.figures import Figure
from headgate.tools.bench.report import Line
from headgate.tools.bench.rows import messages

CONSTRUCT = "construct"
ROW = "messages"
QUICK_ROUNDS = 2

Measure = Callable[[Sequence[str], int], list[messages.Row]]


def measured(*, is_quick: bool, measure: Measure = messages.measure) -> list[messages.Row]:
    """Every message, or in a quick run the hot ones with fewer turns."""
    return measure(messages.HOT, QUICK_ROUNDS) if is_quick else measure((), messages.ROUNDS)


def lines_of(rows: Iterable[messages.Row], others_share: float) -> list[Line]:
    """Of each thing that a broker does with a hot API the version and size with the smallest ratio; of the rest one.

    Speeds and not times, as the mark is how many times faster.
    """
    worst: dict[str, messages.Row] = {}
    for row in rows:
        name = _thing(row)
        if row.mark is not None and (name not in worst or row.ratio < worst[name].ratio):
            worst[name] = row
    return [_line(name, row, others_share) for name, row in sorted(worst.items(), key=_order)]


def _thing(row: messages.Row) -> str:
    """A broker reads requests and writes responses."""
    is_hot = any(row.name in {f"{api}Request", f"{api}Response"} for api in messages.HOT)
    is_served = row.direction == ("read" if row.name.endswith("Request") else "write")
    return f"{row.direction} {row.name}/ms" if is_hot and is_served else f"{row.direction} any other/ms"


def _order(item: tuple[str, messages.Row]) -> tuple[bool, int, str]:
    name, row = item
    apis = [row.name.startswith(api) for api in messages.HOT]
    return name.endswith("any other/ms"), apis.index(True) if any(apis) else len(apis), name


def _line(name: str, row: messages.Row, others_share: float) -> Line:
    figure = Figure(name, lambda _: 0.0, more_is_better=True, mark=row.mark)
    values = {HEADGATE: [1000 / row.compiled_us], CONSTRUCT: [1000 / row.construct_us]}
    return Line.of(ROW, figure, values, others_share)
