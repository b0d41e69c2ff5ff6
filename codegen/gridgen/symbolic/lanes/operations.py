"""Operations of a team's lanes, for programs and for counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import groupby

from gridgen.kernel import WARP
from gridgen.symbolic.lanes.areas import WIDE, Area, Tile, stride_of
from gridgen.symbolic.scalars import Scalar
from gridgen.symbolic.spatial import Motion, split

# A loop over ancestors with fewer rounds is unrolled.
_UNROLLED = 12


@dataclass(frozen=True)
class Published:
    """Values of all lanes in shared memory."""

    lanes: LaneOperations
    area: Area
    count: int

    def of(self, item: str) -> list[Scalar]:
        """Return the values of an item: a number, or the text of an index."""
        return self.lanes.load(self.area, item, self.count)

    def element(self, item: int, component: str) -> Scalar:
        """Return one value of an item."""
        return self.lanes.number_at(self.area, f"{self.area.stride * item} + {component}")


@dataclass(frozen=True)
class Sums:
    """Sums over the subtrees of all items."""

    shared: Published  #: those that are no constants.
    known: Sequence[Sequence[float] | None]  #: of each value, the constant sums.

    def own(self) -> list[Scalar]:
        """Return the sums of each lane's item."""
        return self._with(self.shared.of("lane"), self.shared.lanes.numbers)

    def of_root(self, first: int = 0) -> Scalar:
        """Return sum ``first`` + k of item 0 in lane k."""
        if any(self.known[first:]):
            return self.shared.lanes.chosen(self.root()[first:])
        place = sum(sums is None for sums in self.known[:first])
        return self.shared.element(0, f"{place} + lane" if place else "lane")

    def root(self) -> list[Scalar]:
        """Return the sums of item 0."""
        return self._with(self.shared.of("0"), lambda sums: self.shared.lanes.constant(sums[0]))

    def _with(
        self, values: Sequence[Scalar], number: Callable[[Sequence[float]], Scalar]
    ) -> list[Scalar]:
        found = iter(values)
        return [next(found) if sums is None else number(sums) for sums in self.known]


def _number(rows: list[list[float]], row: list[float]) -> int:
    """Return the number of a row of a table, which has each row once."""
    if row not in rows:
        rows.append(row)
    return rows.index(row)


class LaneOperations(ABC):
    """The scalars of an algorithm for teams of lanes.

    Args:
        parents: parent of each item; -1 for item 0, the root of all. Parents come first.
        width:   lanes of a team, at least as many as items.
    """

    def __init__(self, parents: Sequence[int], width: int) -> None:
        self.parents, self.width = tuple(parents), width
        self.count = len(parents)
        self.ancestors: list[list[int]] = [[] for _ in parents]
        for item in range(1, self.count):
            above = self.parents[item]
            self.ancestors[item] = [above, *self.ancestors[above]]
        self.children = [
            [item for item in range(1, self.count) if self.parents[item] == above]
            for above in range(self.count)
        ]
        self._barrier = "__syncwarp();" if width <= WARP else "__syncthreads();"
        self._valid = "" if width >= WARP else "is_valid"
        self._numbers, self._indices = list[list[float]](), list[list[float]]()
        self.areas: list[Area] = []
        self._stems: Counter[str] = Counter()
        self._phase = 0
        self._extra = self._fences = 0
        self._has_depth = False

    # -- values of lanes ----------------------------------------------------------------------

    def _padded(self, values: Sequence[float | None]) -> list[float]:
        """Return a row of a table; unspecified entries repeat the one before."""
        known = [value for value in values if value is not None]
        row: list[float] = []
        for value in (*values, *[None] * (self.width - len(values))):
            row.append(value if value is not None else row[-1] if row else known[0])
        return row

    def numbers(self, values: Sequence[float | None]) -> Scalar:
        """Return a constant of each item; ``None`` where it has no effect."""
        known = {value for value in values if value is not None}
        if len(known) < 2:
            return self.constant(known.pop() if known else 0.0)
        row = self._padded(values)
        text = f"numbers<T>[{_number(self._numbers, row)}][lane]"
        return self._constant_leaf(text, row)

    def index(self, values: Sequence[int | None], of: str = "lane") -> str:
        """Return the text of an index that each item has; ``None`` where it has no effect."""
        shifts = {value - item for item, value in enumerate(values) if value is not None}
        if len(shifts) == 1:
            (shift,) = shifts
            return f"({of} {'+-'[shift < 0]} {abs(shift)})" if shift else of
        if len(same := {value for value in values if value is not None}) == 1:
            return str(same.pop())
        row = _number(self._indices, self._padded(values))
        return f"indices[{row}][{of}]"

    def only(self, items: Sequence[bool]) -> str:
        """Return the condition that a lane has one of some items; empty for all."""
        chosen = [item for item, is_chosen in enumerate(items) if is_chosen]
        first, last = chosen[0], chosen[-1]
        if chosen != list(range(first, last + 1)):
            flags = [*map(int, items), *[0] * (self.width - len(items))]
            return f"{self.index(flags)} != 0"
        words = [f"lane > {first - 1}"] * (first > 0)
        words += [f"lane < {last + 1}"] * (last + 1 < self.width)
        return " && ".join(words)

    def read(self, array: str, indices: Sequence[int | None]) -> Scalar:
        """Return an element of an input array for each item; zero where there is none."""
        return self._first_leaf(self._of_some(array, indices))

    def _of_some(self, array: str, indices: Sequence[int | None]) -> str:
        """Return the text of an element for each item; zero where there is none."""
        condition = self.only([index is not None for index in indices])
        text = f"{array}[{self.index(indices)}]"
        return f"({condition} ? {text} : T(0))" if condition else text

    def unit(self, item: int) -> Scalar:
        """Return 1 in the lane of an item, 0 in others."""
        return self._first_leaf(f"T(lane == {item})")

    def units(self) -> Motion:
        """Return a unit motion: component k in lane k."""
        return split([self.unit(k) for k in range(6)])

    def chosen(self, values: Sequence[Scalar]) -> Scalar:
        """Return value k in lane k."""
        total = self.constant(0.0)
        for k, value in enumerate(values):
            total = total + self.unit(k) * value
        return total

    # -- phases -------------------------------------------------------------------------------

    def meet(self) -> None:
        """End a phase: the lanes of a team synchronize."""
        self._phase += 1
        self.line(self._barrier)

    def fence(self) -> None:
        """Prevent the compiler from loading what follows before the lanes arrive here."""
        self._fences += 1
        self.line(self._barrier)

    def touch(self, used: Tile | Area) -> None:
        """Note that the present phase reads a matrix or an array."""
        area = used.area if isinstance(used, Tile) else used
        if area:
            area.last = self._phase

    @contextmanager
    def some(self, items: Sequence[bool]) -> Iterator[None]:
        """Enter a branch of the lanes of some items."""
        condition = self.only(items)
        if condition:
            with self.where(f"if ({condition}) {{"):
                yield
        else:
            yield

    # -- shared memory ------------------------------------------------------------------------

    def _area(self, name: str, size: int, stride: int = 1) -> Area:
        self._stems[name] += 1
        unique = f"{name}_{self._stems[name]}" if self._stems[name] > 1 else name
        area = Area(unique, size, stride, self._phase, self._phase)
        self.areas.append(area)
        return area

    def number_at(self, area: Area, offset: str) -> Scalar:
        """Return a number of an area."""
        area.last = self._phase
        return self.value(f"{area.name}[{offset}]")

    def number_of_each(self, area: Area, indices: Sequence[int | None]) -> Scalar:
        """Return a number of an area for each item; zero where the index is ``None``."""
        area.last = self._phase
        return self.value(self._of_some(area.name, indices))

    def load(self, area: Area, item: str, count: int, offset: int = 0) -> list[Scalar]:
        """Return the record of an item, or numbers of it from an aligned offset."""
        area.last = self._phase
        return self._loaded(area.stem, area.at(item, str(offset) if offset else ""), count)

    def reserve(self, name: str, count: int) -> Published:
        """Return shared memory for ``count`` values of each lane, to be published later."""
        stride = stride_of(count) if count > 1 else 1
        return Published(self, self._area(name, stride * self.width, stride), count)

    def publish(self, name: str, values: Sequence[Scalar], area: Area | None = None) -> Published:
        """Store values of each lane; other lanes can read them in later phases."""
        area = area or self.reserve(name, len(values)).area
        area.last = self._phase
        if len(values) == 1:
            self._write(f"{area.name}[lane]", values[0])
        else:
            self._store(area.at("lane"), values)
        return Published(self, area, len(values))

    def outward(
        self,
        name: str,
        values: Sequence[Scalar],
        combine: Callable[[Sequence[Scalar], Sequence[Scalar]], Sequence[Scalar]],
    ) -> list[Scalar]:
        """Combine the values along the path from the root to each item, by pointer jumping.

        Args:
            name:    of the shared memory.
            values:  of each lane; those of item 0 are the neutral ones.
            combine: an associative function of the values of an ancestor and of an item.
        """
        own = list(values)
        rounds = max(len(self.ancestors[item]) - 1 for item in range(self.count)).bit_length()
        shared: Published | None = None
        for k in range(rounds):
            if shared is not None:
                self.meet()
            shared = self.publish(name, own, shared.area if shared else None)
            self.meet()
            partners = [above[2**k - 1] if len(above) >= 2**k else 0 for above in self.ancestors]
            own = list(combine(shared.of(self.index(partners)), own))
        return own

    def inward(
        self,
        name: str,
        values: Sequence[Scalar],
        *,
        constants: int = 0,
        stages: Sequence[Sequence[int]] | None = None,
        transfer: Callable[[list[Scalar]], Sequence[Scalar]] | None = None,
    ) -> Sums:
        """Sum values over the subtree of each item: a lane sums one component of all items.

        Args:
            name:      of the shared memory.
            values:    of each lane.
            constants: number of leading values whose sums are constant if the values are.
            stages:    the items in groups of equal coordinates, in the order of summation; all by
                       default.
            transfer:  returns sums in the coordinates of the parent's group.
        """
        stages = stages or [range(self.count)]
        known = [self._constant_sums(v) if k < constants else None for k, v in enumerate(values)]
        summed = [value for value, sums in zip(values, known, strict=True) if sums is None]
        sums = Sums(self.publish(name, summed), known)
        self.meet()
        leaders = [
            item for stage in stages[:-1] for item in stage if self.parents[item] not in stage
        ]
        stride = sums.shared.area.stride
        moved = self._area(name, stride * len(leaders), stride) if leaders else None
        for number, stage in enumerate(stages):
            self._add_components(sums.shared, stage, moved, leaders)
            self.meet()
            own = [item for item in leaders if item in stage]
            if number + 1 < len(stages) and own and moved and transfer:
                with self.some([item in own for item in range(self.count)]):
                    found = transfer(sums.own())
                    slots = [leaders.index(i) if i in own else None for i in range(self.count)]
                    left = [v for v, k in zip(found, known, strict=True) if k is None]
                    self._store(moved.at(self.index(slots)), left)
                    moved.last = self._phase
                self.meet()
        return sums

    def _add_components(
        self, shared: Published, stage: Sequence[int], moved: Area | None, leaders: Sequence[int]
    ) -> None:
        """Add the records of some items to those of their parents, from the leaves."""
        area = shared.area
        with self._components(shared.count):
            sums: dict[int, Scalar] = {}
            for item in reversed(stage):
                place = f"{area.stride * item} + component"
                sums[item] = self.number_at(area, place)
                for child in self.children[item]:
                    if child in sums:
                        sums[item] = sums[item] + sums[child]
                    elif moved:
                        at = f"{area.stride * leaders.index(child)} + component"
                        sums[item] = sums[item] + self.number_at(moved, at)
                if self.children[item]:
                    self._write(f"{area.name}[{place}]", sums[item])

    def _components(self, count: int) -> AbstractContextManager[None]:
        """Enter a loop over the components of records; each lane has some."""
        rounds = -(-count // self.width)
        header = f"if (const int component = lane; component < {count}) {{"
        if rounds > 1:
            header = (
                f"for (int component = lane; component < {count}; component += {self.width}) {{"
            )
        return self.where(header, rounds)

    # -- one level of the tree after another --------------------------------------------------

    def _level_of_lane(self) -> str:
        """Return the name of the depth of a lane's item; 0 for others."""
        if not self._has_depth:
            depths = [len(above) for above in self.ancestors]
            padded = [*depths, *[0] * (self.width - self.count)]
            self.line(f"const int depth = {self.index(padded)};")
            self._has_depth = True
        return "depth"

    @contextmanager
    def _levels(self, first: int, last: int) -> Iterator[None]:
        """Enter a loop over levels, and the branch of the lanes of one; they synchronize after."""
        rounds, start, depth = abs(last - first) + 1, self._phase, self._level_of_lane()
        ends = f"level >= {last}; --level" if last < first else f"level <= {last}; ++level"
        with self.where(f"GRIDGEN_ROLLED for (int level = {first}; {ends}) {{", rounds):
            with self.where(f"if ({depth} == level) {{"):
                yield
            self.meet()
        self._fences += (rounds - 1) * (self._phase - start)
        for area in self.areas:  # a later round needs what an earlier phase used
            if area.last >= start:
                area.last = self._phase

    def from_tips(
        self,
        name: str,
        values: Sequence[Scalar],
        transmit: Callable[[list[Scalar], Callable[[Sequence[Scalar]], None]], None],
    ) -> Published:
        """Add the values of each item and what its children transmit, from the leaves.

        Args:
            name:     of the shared memory.
            values:   of each lane.
            transmit: function of an item's sums. It passes what the parent adds to a function.

        Returns:
            what the items transmit; the values of item 0.
        """
        count, nothing = len(values), self.width
        stride = stride_of(count)
        area = self._area(name, stride * (self.width + 1), stride)
        with self.some([True]):
            self._store(area.at("0"), values)
            self._store(area.at(str(nothing)), [self.constant(0.0)] * count)
        most = [0] * (1 + max(map(len, self.ancestors)))
        for item, children in enumerate(self.children):
            level = len(self.ancestors[item])
            most[level] = max(most[level], len(children))
        levels = [level for level in reversed(range(1, len(most)))]
        for slots, run in groupby(levels, most.__getitem__):
            first, *rest = run
            last = rest[-1] if rest else first
            with self._levels(first, last):
                sums = list(values)
                for slot in range(slots):
                    listed = [
                        None
                        if not last <= len(self.ancestors[item]) <= first
                        else (children[slot] if slot < len(children) else nothing)
                        for item, children in enumerate(self.children)
                    ]
                    found = self.load(area, self.index(listed), count)
                    sums = [a + b for a, b in zip(sums, found, strict=True)]
                transmit(sums, lambda left: self._store(area.at("lane"), left))
        return Published(self, area, count)

    def sums_of_root(self, transmitted: Published) -> list[Scalar]:
        """Return the sums of item 0, after ``from_tips``."""
        area = transmitted.area
        with self._components(transmitted.count):
            total = self.number_at(area, "component")
            for child in self.children[0]:
                total = total + transmitted.element(child, "component")
            self._write(f"{area.name}[component]", total)
        self.meet()
        return transmitted.of("0")

    def from_root(
        self,
        name: str,
        start: Sequence[Scalar],
        step: Callable[[list[Scalar]], Sequence[Scalar]],
    ) -> list[Scalar]:
        """Return values of each item, which follow from those of its parent.

        Args:
            name:  of the shared memory.
            start: the values of item 0, in all lanes.
            step:  returns the values of an item.
        """
        count, area = len(start), self.reserve(name, len(start)).area
        with self.some([True]):
            self._store(area.at("0"), start)
        self.meet()
        parents = self.index([None, *self.parents[1:]])
        with self._levels(1, max(map(len, self.ancestors))):
            self._store(area.at("lane"), step(self.load(area, parents, count)))
        return self.load(area, "lane", count)

    def _constant_sums(self, value: Scalar) -> list[float]:
        """Return the sums over subtrees of a constant."""
        sums = list(self._constants(value))
        for item in reversed(range(1, self.count)):
            sums[self.parents[item]] += sums[item]
        return sums

    def climb(
        self, shared: Published, ancestors: Sequence[Sequence[int]]
    ) -> Iterator[tuple[str, list[Scalar]]]:
        """Yield the text of an ancestor with its published values: in a loop over those listed."""
        most = max(map(len, ancestors))
        if not most:
            return
        rows = [
            self._padded([above[k] if k < len(above) else 0 for above in ancestors])
            for k in range(most)
        ]
        first = next(
            (k for k in range(len(self._indices)) if self._indices[k : k + most] == rows),
            len(self._indices),
        )
        if first == len(self._indices):
            self._indices += rows
        depth = self.index([len(above) for above in ancestors])
        how = "GRIDGEN_UNROLLED" if most <= _UNROLLED else "GRIDGEN_BY_TWO"
        header = f"{how} for (int up = 0; up < {most}; ++up) if (up < {depth}) {{"
        with self.where(header, most):
            self.line(f"const int above = indices[{first} + up][lane];")
            yield "above", shared.of("above")

    # -- results ------------------------------------------------------------------------------

    def write(self, array: str, indices: Sequence[int | None], value: Scalar) -> None:
        """Write an element of an output for each item; none where the index is ``None``."""
        padded = [index is not None for index in indices]
        condition = " && ".join(filter(None, (self._valid, self.only(padded))))
        with self.where(f"if ({condition}) {{" if condition else "{"):
            self._write(f"{array}[{self.index(indices)}]", value)

    def tile(
        self,
        name: str,
        rows: int,
        columns: int | None = None,
        *,
        is_shared: bool = True,
        is_aligned: bool = False,
    ) -> Tile:
        """Return a matrix; clear it before entries are written.

        Args:
            name:       of the memory, or of the output.
            rows:       number of rows.
            columns:    number of columns; as many as rows by default.
            is_shared:  whether it is in shared memory, instead of the output.
            is_aligned: whether rows start at multiples of 16 bytes, for ``row``.
        """
        columns = columns or rows
        if not is_shared:
            return Tile(None, name, rows, columns)
        # Neighboring rows use other banks.
        pitch = stride_of(columns) if is_aligned else columns + (columns % 2 == 0)
        area = self._area(name, -(-rows * pitch // WIDE) * WIDE)
        return Tile(area, area.name, rows, pitch)

    def clear(self, *tiles: Tile) -> None:
        """Fill matrices with zeros."""
        for tile in {tile.name: tile for tile in reversed(tiles)}.values():
            count = tile.rows * tile.pitch
            self._extra += 2 * -(-count // self.width)
            name = "clear" if tile.area else "clear_output"
            self.line(f"gridgen::{name}<{self.width}, {count}>(lane, {tile.name});")
        self.meet()

    def enter(self, tile: Tile, row: str, column: str, value: Scalar) -> None:
        """Write an entry."""
        self.touch(tile)
        self._write(tile.place(row, column), value)

    def entry(self, tile: Tile, row: str, column: str) -> Scalar:
        """Return an entry."""
        self.touch(tile)
        return self.value(tile.place(row, column))

    def row(self, tile: Tile, row: int, columns: Sequence[int]) -> dict[int, Scalar]:
        """Return some entries of a row, for all lanes."""
        assert tile.area is not None
        return self.vector(tile.area, columns, tile.pitch * row)

    def vector(self, area: Area, indices: Sequence[int], start: int = 0) -> dict[int, Scalar]:
        """Return some numbers of an area after an aligned start, for all lanes."""
        found: dict[int, Scalar] = {}
        for first in sorted({index // WIDE * WIDE for index in indices}):
            numbers = self.load(area, "0", WIDE, start + first)
            found |= {first + k: number for k, number in enumerate(numbers) if first + k in indices}
        return found

    def array(self, name: str, size: int) -> Area:
        """Return an array in shared memory."""
        return self._area(name, -(-size // WIDE) * WIDE)

    def set(self, area: Area, index: str, value: Scalar) -> None:
        """Write a number of an array."""
        area.last = self._phase
        self._write(f"{area.name}[{index}]", value)

    def slots(self, count: int) -> list[list[int]]:
        """Return the columns of a matrix that each lane has: one in each slot."""
        return [
            list(range(first, min(first + self.width, count)))
            for first in range(0, count, self.width)
        ]

    def columns(self, count: int, most: int) -> Iterator[list[str]]:
        """Enter a loop over the columns of a wide matrix; yield the indices that a lane has.

        Args:
            count: number of columns.
            most:  most columns of a lane in one round.
        """
        slots = -(-count // self.width)
        rounds = -(-slots // most)
        most = -(-slots // rounds)
        step = self.width * most
        with self.where(
            f"GRIDGEN_ROLLED for (int first = 0; first < {count}; first += {step}) {{", rounds
        ):
            names = [f"column_{slot}" for slot in range(most)]
            for slot, name in enumerate(names):
                self.line(f"const int {name} = first + lane + {self.width * slot};")
            yield names

    def write_column(
        self, column: str, arrays: Mapping[str, int], values: Sequence[Scalar]
    ) -> None:
        """Write a column of matrices side by side, if there is such a column.

        Args:
            column: its index.
            arrays: the matrices, and their numbers of columns.
            values: its entries.
        """
        condition = f"{column} < {sum(arrays.values())}" + f" && {self._valid}" * bool(self._valid)
        with self.where(f"if ({condition}) {{"):
            widths = ", ".join(map(str, arrays.values()))
            listed = ", ".join(arrays)
            self.line(f"auto place = gridgen::column<{widths}>({column}, {listed});")
            for value in values:
                self._write("place.next()", value)

    def add_row(self, tile: Tile, source: int, target: int, factor: float) -> None:
        """Add a multiple of a row and a column of a matrix to others."""
        for form in ("row", "column"):
            header = f"for (int k = lane; k < {tile.rows}; k += {self.width}) {{"
            with self.where(header, -(-tile.rows // self.width)):
                places = [
                    tile.place(*((str(at), "k") if form == "row" else ("k", str(at))))
                    for at in (source, target)
                ]
                own, other = map(self.value, places)
                self._write(places[1], other + self.constant(factor) * own)
            self.meet()

    def deliver(self, tile: Tile, array: str, size: int) -> None:
        """Write the first rows and columns of a matrix to an output."""
        if tile.area is None:
            return
        tile.area.last = self._phase
        self._extra += 4 * -(-size * size // self.width)
        call = f"gridgen::deliver<{self.width}, {size}, {tile.pitch}>(lane, {tile.name}, {array});"
        self.line(f"if ({self._valid}) {call}" if self._valid else call)

    # -- shared memory as a whole -------------------------------------------------------------

    def allocate(self) -> int:
        """Place the areas; return the numbers of shared memory."""
        placed: list[Area] = []
        for area in sorted(self.areas, key=lambda area: -area.size):
            others = [
                other for other in placed if other.first <= area.last and area.first <= other.last
            ]
            starts = [0, *(other.start + other.size for other in others)]
            area.start = min(
                start
                for start in starts
                if all(
                    start + area.size <= other.start or other.start + other.size <= start
                    for other in others
                )
            )
            placed.append(area)
        return max((area.start + area.size for area in placed), default=0)

    # -- methods of programs and layouts ------------------------------------------------------

    @abstractmethod
    def begin(self, phase: str, body: int) -> None:
        """Begin a part of the program; see ``Scalars``."""

    @abstractmethod
    def constant(self, value: float) -> Scalar:
        """Return a number; see ``Scalars``."""

    @abstractmethod
    def line(self, text: str) -> None:
        """Insert a statement."""

    @abstractmethod
    def where(self, header: str, times: int = 1) -> AbstractContextManager[None]:
        """Enter a branch or a loop of ``times`` rounds."""

    @abstractmethod
    def value(self, text: str) -> Scalar:
        """Return a number that C++ text describes."""

    @abstractmethod
    def _first_leaf(self, text: str) -> Scalar:
        """Return a number that the program loads at its beginning."""

    @abstractmethod
    def _constant_leaf(self, text: str, row: Sequence[float]) -> Scalar:
        """Return a constant of each item."""

    @abstractmethod
    def _constants(self, value: Scalar) -> Sequence[float]:
        """Return the constant of each item."""

    @abstractmethod
    def _write(self, text: str, value: Scalar) -> None:
        """Write a number."""

    @abstractmethod
    def _store(self, address: str, values: Sequence[Scalar]) -> None:
        """Write consecutive numbers."""

    @abstractmethod
    def _loaded(self, stem: str, address: str, count: int) -> list[Scalar]:
        """Return consecutive numbers."""
