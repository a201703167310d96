"""Reader of the metadata in a .gguf file, and of its tensors of rotary factors."""

import struct
import sys
from pathlib import Path
from typing import Any

from gguf import GGUFReader, GGUFValueType

FACTORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
"""Names of the tensors that divide frequencies, pair by pair."""

LONGEST = 4096  # numbers in an array that is read; arrays by layer have hundreds
BYTE_ORDERS = {"little": {"I": "<", "S": ">"}, "big": {"I": ">", "S": "<"}}


class _Header(GGUFReader):
    """Reader that skips long arrays, such as a tokenizer's, and all other tensors."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple:
        if raw_type == GGUFValueType.ARRAY:
            kind = GGUFValueType(self._get(orig_offs, "u4")[0])
            count = int(self._get(orig_offs + 4, "u8")[0])
            start = orig_offs + 12
            if kind == GGUFValueType.STRING:
                end = self._after_strings(start, count)
                return end - orig_offs, [], [], [GGUFValueType.ARRAY, kind]
            if count > LONGEST and kind in self.gguf_scalar_to_np:
                size = count * self.gguf_scalar_to_np[kind]().nbytes
                return start + size - orig_offs, [], [], [GGUFValueType.ARRAY, kind]
        return super()._get_field_parts(orig_offs, raw_type)

    def _after_strings(self, start: int, count: int) -> int:
        length = struct.Struct(BYTE_ORDERS[sys.byteorder][self.byte_order] + "Q")
        for _ in range(count):
            start += 8 + length.unpack_from(self.data, start)[0]
        return start

    def _build_tensors(self, start_offs: int, fields: list) -> None:
        wanted = [field for field in fields if field.name in FACTORS]
        super()._build_tensors(start_offs, wanted)


def content(path: Path) -> dict[str, Any]:
    """Return the metadata of a .gguf file, and its tensors of factors by their names.

    Arrays of text and arrays of more than 4096 numbers are left out.

    Raises
    ------
    ValueError
        The file is damaged, or its tensors of factors are not float32 or float16.
    """
    try:
        reader = _Header(path)
    except (LookupError, struct.error, OverflowError, ValueError) as error:
        raise ValueError(f"it is damaged, {error}") from error
    found: dict[str, Any] = {}
    for name, field in reader.fields.items():
        values = [field.parts[n] for n in field.data]
        if field.types == [GGUFValueType.STRING]:
            found[name] = bytes(values[0]).decode()
        elif field.types[0] != GGUFValueType.ARRAY:
            found[name] = values[0][0].item()
        elif values:
            found[name] = [value[0].item() for value in values]
    for tensor in reader.tensors:
        if tensor.data.dtype.kind != "f":
            raise ValueError(
                f"{tensor.name} must be float32 or float16, got "
                f"{tensor.tensor_type.name}"
            )
        found[tensor.name] = tensor.data.ravel().tolist()
    return found
