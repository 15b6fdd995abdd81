"""Varints of records: zigzag numbers of up to 64 bits, seven bits a byte, the low ones first (Protocol Buffers).

`read_varint` and `write_varint` take signed numbers. Loops over many records read the zigzag form itself, and decode
only the numbers that they need. An odd zigzag number is negative; half of an even one is its value.

All readers raise IndexError at the end of the data, and for a varint of more than ten bytes.
"""

from __future__ import annotations

from headgate.protocol.records import Buffer

_MAX_BYTES = 10


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a number; return it, and the position after it. The code repeats `read_rest`: a call would cost 50 ns."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift == 7 * _MAX_BYTES:
            raise IndexError("a varint has more than ten bytes")


def read_zigzag(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Read a number in zigzag form; return it, and the position after it."""
    byte = data[position]
    return (byte, position + 1) if byte < 0x80 else read_rest(data, position + 1, byte)


def read_rest(data: bytes | memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the bytes of a varint after `first`; return the number in zigzag form, and the position after it."""
    value = first & 0x7F
    for shift in range(7, 7 * _MAX_BYTES, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise IndexError("a varint has more than ten bytes")


def decode_zigzag(number: int) -> int:
    """Return the signed number of a zigzag form."""
    return (number >> 1) ^ -(number & 1)


def write_varint(out: bytearray, number: int) -> None:
    """Append a number of up to 64 bits."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)


def encode_varint(number: int) -> bytes:
    """Return the bytes of a number of up to 64 bits."""
    out = bytearray()
    write_varint(out, number)
    return bytes(out)
