"""Assignment of user-supplied values to the inputs of a model, for one run or for a parameter sweep."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop.array_conversion import Ragged, as_supported_array
from mdf_loop.checked_cast import cast_checked
from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Data, InputRole, Program
from mdf_loop.ir.types import dtype_name
from mdf_loop.lower.builder import Options
from mdf_loop.lru_cache import LRUCache
from mdf_loop.reading.inputs import BoundInputs, OpenPort, bind, bind_members, open_ports
from mdf_loop.reading.port_values import find_default
from mdf_loop.reading.settings import Settings, bind_settings, input_name, with_defaults
from mdf_loop.reading.streams import DEFAULT_STREAMS, Streams
from mdf_loop.specification import Values
from mdf_loop.sweeps import refuse_uneven
from mdf_loop.trials import DEFAULT_DRAWS

_EMPTY_MAPPING: Mapping[str, Any] = MappingProxyType({})
_NO_NAMES: frozenset[str] = frozenset()
_NO_SETTINGS = Settings()

SEED = "seed"
"""Name in a sweep under which the seed of the random numbers is varied."""

_MAX_CACHED_BINDINGS = 64
"""Maximum number of cached bindings. Each belongs to one combination of input names, dtypes and shapes."""


class InputTypes:
    """Names, dtypes and shapes of a program's inputs, as a hashable cache key."""

    def __init__(self, inputs: BoundInputs, settings: Settings, swept: Iterable[str]) -> None:
        setting_types = (
            (name, str(array.dtype), array.shape) for name, array in settings.arrays.items()
        )
        self._content = (*inputs.types.items(), *setting_types), inputs.varying_names, tuple(swept)
        self._hash = hash(self._content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputTypes) and self._content == other._content


class BoundValues(Struct, frozen=True):
    """Input values, parameter values and random keys of a run, bound to the inputs of a program.

    Attributes:
        inputs: Values of the input ports. A swept input has the value of the first member.
        settings: Values of parameters that are set from outside.
        swept_inputs: Input of the program -> its values, one row per member.
        member_values: Name that the user gave in the sweep -> its values, one row per member.
        input_types: Input types for which a program is specialized.
        streams: Random streams of the run.
        keys_by_input: Keys of the random streams. The mapping is empty until the program's random sites are known.
    """

    inputs: BoundInputs
    settings: Settings
    swept_inputs: Mapping[str, Array]
    member_values: Mapping[str, Array]
    input_types: InputTypes
    streams: Streams = DEFAULT_STREAMS
    keys_by_input: Mapping[str, Array] = field(default_factory=lambda: _EMPTY_MAPPING)

    @classmethod
    def of(
        cls,
        inputs: BoundInputs,
        settings: Settings | None = None,
        swept_inputs: Mapping[str, Array] | None = None,
        member_values: Mapping[str, Array] | None = None,
        streams: Streams = DEFAULT_STREAMS,
    ) -> BoundValues:
        """Build a `BoundValues` object, with input types that are derived from the values."""
        settings, swept_inputs = settings or _NO_SETTINGS, swept_inputs or _EMPTY_MAPPING
        input_types = InputTypes(
            inputs, settings, (*swept_inputs, *(("random keys",) * streams.has_members))
        )
        return cls(
            inputs, settings, swept_inputs, member_values or _EMPTY_MAPPING, input_types, streams
        )

    @property
    def arrays(self) -> Mapping[str, Data]:
        """Arrays of all program inputs by name.

        A swept input has one row per member of the sweep.
        """
        if not (self.swept_inputs or self.settings.arrays or self.keys_by_input):
            return self.inputs.arrays
        return {
            **self.inputs.arrays,
            **self.settings.inputs,
            **self.swept_inputs,
            **self.keys_by_input,
        }

    @property
    def random_keys(self) -> Array:
        """Random keys of a program that draws random numbers."""
        (key_array,) = self.keys_by_input.values()
        return key_array

    @property
    def has_members(self) -> bool:
        """True if several runs are computed together: members of a sweep, or trials."""
        return bool(self.swept_inputs) or self.streams.has_members

    def inputs_with_members(self, program: Program) -> tuple[str, ...]:
        """Return the names of the program inputs that have one row per member of a sweep.

        Raises:
            InputError: If the program draws no random numbers, so that all trials would be equal.
        """
        if not self.streams.has_members:
            return tuple(self.swept_inputs)
        if not program.sites:
            raise InputError(
                "the model draws no random numbers: all trials, of whatever seeds, would be the same",
                hint="leave trials, or the sweep of seeds, out",
            )
        return (*self.swept_inputs, *program.input_names(InputRole.KEYS).values())

    def with_random_keys(self, program: Program) -> BoundValues:
        """Return a copy that also contains the keys of all random streams of a program."""
        if not program.sites:
            return self
        key_input_names = program.input_names(InputRole.KEYS).values()
        member_count = len(next(iter(self.member_values.values()), (None,)))
        random_keys = self.streams.keys(program.sites, member_count)
        return replace(self, keys_by_input=dict.fromkeys(key_input_names, random_keys))


class InputBinder:
    """Converter of the input values of a run to arrays for all inputs of a model, with a cache.

    If the model is a modeci_mdf object, a changed default_value of a port takes effect in the next run.
    """

    def __init__(self, document: Document, options: Options) -> None:
        self._options = options
        self._set_document(document)

    def _set_document(self, document: Document) -> None:
        self._document = document
        self._ports = open_ports(document)
        self._cache: LRUCache[_CachedBinding] = LRUCache(_MAX_CACHED_BINDINGS)
        source_nodes = document.source_graph.nodes if document.source_graph else ()
        self._source_ports = {
            (node.id, port.id): port for node in source_nodes for port in node.input_ports
        }

    def _read_changed_defaults(self) -> None:
        """Read the default values again that the caller has changed in a modeci_mdf object."""
        changed_defaults = {
            port.name: source_port.default_value
            for port in self._ports
            if (source_port := self._source_ports.get((port.node, port.port.id))) is not None
            and source_port.default_value is not port.port.default_value
        }
        if changed_defaults:
            source_graph = self._document.source_graph
            document = with_defaults(self._document, changed_defaults)
            self._set_document(replace(document, source_graph=source_graph))

    def bind(self, values: Values, steps: int | None = None) -> BoundValues:
        """Assign the values of a run to the inputs of the model, as arrays.

        `steps` is the number of steps of a run over time.

        Raises:
            InputError: If a name is unknown or is given twice, if a value does not fit, or if a sweep is invalid.
        """
        if self._source_ports:
            self._read_changed_defaults()
        streams = DEFAULT_STREAMS
        if values.draws is not DEFAULT_DRAWS:
            streams = Streams(values.draws.seed, values.draws.trials)
        # The inputs of a run over time may have one row per step.
        may_vary_over_time = steps is not None and bool(values.inputs)
        if values.sweep or values.set or may_vary_over_time or streams.has_members:
            return self._bind_uncached(values, steps)
        cache_key = _build_cache_key(values.inputs)
        cached_binding = None if cache_key is None else self._cache.get(cache_key)
        bound_values = (
            None
            if cached_binding is None
            else cached_binding.bind(values.inputs, self._options.precision)
        )
        if bound_values is not None:
            return (
                bound_values
                if streams is DEFAULT_STREAMS
                else replace(bound_values, streams=streams)
            )
        bound_values = self._bind_uncached(values, steps)
        if cache_key is not None and (
            cached_binding := _CachedBinding.create(self._ports, values.inputs, bound_values)
        ):
            self._cache.put(cache_key, cached_binding)
        return bound_values

    def _bind_uncached(self, values: Values, steps: int | None) -> BoundValues:
        """Assign the values of a run to the inputs of the model, without the cache."""
        member_values = {
            swept_name: _convert_swept_values(swept_name, member_rows)
            for swept_name, member_rows in values.sweep.items()
        }
        refuse_uneven(member_values)
        if repeated_names := set(member_values) & (set(values.inputs) | set(values.set)):
            raise InputError(
                f"'{min(repeated_names)}' is swept, so it cannot be given one value too"
            )
        document, options = self._document, self._options
        ports_with_names = _find_swept_ports(self._ports, values.inputs, member_values)
        port_names = {port_name for _, port_name in ports_with_names}
        seeds = _find_swept_seeds(member_values, port_names)
        streams = Streams(values.draws.seed if seeds is None else seeds, values.draws.trials)
        first_member_rows = {
            swept_name: member_rows[0]
            for swept_name, member_rows in member_values.items()
            if seeds is None or swept_name != SEED
        }
        parameter_rows = {
            parameter_name: row
            for parameter_name, row in first_member_rows.items()
            if parameter_name not in port_names
        }
        first_member_inputs = {
            **values.inputs,
            **{port_name: first_member_rows[port_name] for port_name in port_names},
        }
        bound_inputs = bind(document, first_member_inputs, options, steps, self._ports)
        settings = bind_settings(document, {**values.set, **parameter_rows}, options.precision)
        swept_inputs = {}
        for port, port_name in ports_with_names:
            swept_inputs[port.name] = bind_members(
                bound_inputs, port, member_values[port_name], options, port_name
            )
        for parameter_name in parameter_rows:
            input_key = input_name(parameter_name)
            dtype = dtype_name(settings.arrays[parameter_name])
            swept_inputs[input_key] = cast_checked(
                member_values[parameter_name], dtype, f"the value of '{parameter_name}'"
            )
        member_rows = {
            program_name: streams.repeat_for_trials(rows)
            for program_name, rows in swept_inputs.items()
        }
        return BoundValues.of(bound_inputs, settings, member_rows, member_values, streams)


# --- cache of bindings ----------------------------------------------------------------------------


def _build_cache_key(inputs: Mapping[str, Any]) -> Hashable | None:
    """Return a cache key that consists of the names, dtypes and shapes of input arrays.

    Return None if an input is no plain NumPy array.
    """
    input_arrays = inputs.values()
    if not _PLAIN_ARRAY_TYPES.issuperset(map(type, input_arrays)):
        return None
    return tuple(inputs), tuple(map(_get_dtype, input_arrays)), tuple(map(_get_shape, input_arrays))


_PLAIN_ARRAY_TYPES = frozenset((np.ndarray,))
_get_dtype, _get_shape = attrgetter("dtype"), attrgetter("shape")


class _CachedBinding(Struct, frozen=True):
    """Cached assignment of input arrays to program inputs, for certain names, dtypes and shapes.

    Attributes:
        program_names: Names of the given inputs in the program, in the order of the arguments. The tuple is empty if
            these names equal the names that the caller uses.
        other_values: Values of the inputs that the caller does not pass, except the arrays in `default_arrays`.
        default_arrays: Ports whose default_value is a list or an array, each with its array when the binding was cached.
        dtypes: Dtypes of the inputs that are not arrays.
        input_types: Input types for which a program is specialized.
    """

    program_names: tuple[str, ...]
    other_values: Mapping[str, Data]
    default_arrays: tuple[tuple[OpenPort, Array], ...]
    dtypes: Mapping[str, str]
    input_types: InputTypes

    @classmethod
    def create(
        cls, ports: Iterable[OpenPort], inputs: Mapping[str, Any], bound: BoundValues
    ) -> _CachedBinding | None:
        """Create the cache entry for input arrays of these types, or None if it is not reusable.

        The binding is not reusable if other values of these types may be bound differently.
        """
        arrays, program_names = bound.inputs.arrays, {}
        default_arrays = []
        for port in ports:
            name, default_value, port_array = (
                port.name_among(inputs),
                port.port.default_value,
                arrays[port.name],
            )
            if name is not None:
                program_names[name] = port.name
                if port_array is not inputs[name] or port_array.dtype.kind in "OUST":
                    return None  # the value was converted, or its elements were checked
            elif default_value is not None and not isinstance(
                default_value, bool | int | float | str
            ):
                if not isinstance(port_array, np.ndarray):
                    return None
                default_arrays.append((port, port_array))
        if program_names.keys() != inputs.keys():
            return None
        port_names = {*program_names.values(), *(port.name for port, _ in default_arrays)}
        values_without_port = {
            name: input_data for name, input_data in arrays.items() if name not in port_names
        }
        input_names = tuple(program_names[name] for name in inputs)
        input_names = () if input_names == tuple(inputs) else input_names
        return cls(
            input_names,
            values_without_port,
            tuple(default_arrays),
            bound.inputs.dtypes,
            bound.input_types,
        )

    def bind(self, inputs: Mapping[str, Any], precision: str) -> BoundValues | None:
        """Assign input arrays to the inputs of the program, as recorded in the cache entry.

        The arrays must have the names, dtypes and shapes for which the entry was created.

        Return None if an array or list in the document has changed its type.
        """
        named_arrays = (
            zip(self.program_names, inputs.values(), strict=True) if self.program_names else inputs
        )
        arrays: dict[str, Data] = dict(named_arrays)
        arrays.update(self.other_values)
        for open_port, cached_array in self.default_arrays:
            array = find_default(open_port.port, precision, open_port.where)
            if array.dtype != cached_array.dtype or array.shape != cached_array.shape:
                return None
            arrays[open_port.name] = array
        bound_inputs = BoundInputs(arrays, _NO_NAMES, self.dtypes, _EMPTY_MAPPING)
        return BoundValues(
            bound_inputs, _NO_SETTINGS, _EMPTY_MAPPING, _EMPTY_MAPPING, self.input_types
        )


# --- sweeps ---------------------------------------------------------------------------------------


def _convert_swept_values(name: str, values: Any) -> Array:
    """Return the values of a swept name as an array with one row per member."""
    try:
        swept_rows = as_supported_array(values, f"the sweep of '{name}'")
    except Ragged:
        raise InputError(f"the values of '{name}' in the sweep have different shapes") from None
    if swept_rows.ndim == 0 or len(swept_rows) == 0 or swept_rows.dtype.kind not in "biuf":
        raise InputError(
            f"the sweep of '{name}' is no list of numbers: {values!r}"[:200],
            hint="give one value for each run, e.g. numpy.linspace(0, 1, 1000)",
        )
    return swept_rows


def _find_swept_seeds(
    members: Mapping[str, Array], ports: Collection[str]
) -> tuple[int, ...] | None:
    """Return the swept seeds, or None if seeds are not swept."""
    if SEED not in members or SEED in ports:
        return None
    seed_rows = members[SEED]
    if seed_rows.dtype.kind == "f" and (seed_rows == np.floor(seed_rows)).all():
        # numpy.linspace returns whole numbers as floats.
        seed_rows = seed_rows.astype(np.int64)
    if seed_rows.ndim != 1 or seed_rows.dtype.kind not in "iu" or (seed_rows < 0).any():
        raise InputError("the sweep of 'seed' is no list of whole numbers from 0 to 2**64 - 1")
    return tuple(seed_rows.tolist())


def _find_swept_ports(
    ports: tuple[OpenPort, ...], inputs: Collection[str], members: Collection[str]
) -> list[tuple[OpenPort, str]]:
    """Return the swept input ports, each with its name in the sweep."""
    if not members:
        return []
    value_names = {*inputs, *members}
    swept_ports = [
        (port, swept_name)
        for port in ports
        if (swept_name := port.name_among(value_names)) in members and swept_name
    ]
    for swept_name in members:
        matching_ports = [port for port in ports if port.name_among({swept_name})]
        if matching_ports and swept_name not in {port_name for _, port_name in swept_ports}:
            second_name = matching_ports[0].name_among(value_names)
            raise InputError(f"'{swept_name}' is swept, but '{second_name}' means the same input")
    return swept_ports
