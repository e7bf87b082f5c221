#include "python_lines.hpp"

namespace ttmem::probe {

namespace {

// PEP 626, CPython 3.10: pairs of (bytes of code, lines), where -128 lines means 'none'.
int line_by_pairs(const unsigned char* at, const unsigned char* end, int line, std::uint32_t wanted) {
    std::uint32_t covered = 0;
    for (; at + 1 < end; at += 2) {
        const int delta = static_cast<signed char>(at[1]);
        covered += at[0];
        line += delta == -128 ? 0 : delta;
        if (wanted * 2 < covered) {
            return line;
        }
    }
    return line;
}

unsigned read_number(const unsigned char*& at, const unsigned char* end) {
    unsigned value = 0;
    for (int shift = 0; at < end && shift < 30; shift += 6) {
        const unsigned char part = *at++;
        value |= static_cast<unsigned>(part & 63) << shift;
        if (!(part & 64)) {
            break;
        }
    }
    return value;
}

// CPython 3.11 and up: entries of a form, a length in code units, and mostly columns.
int line_by_locations(const unsigned char* at, const unsigned char* end, int line, std::uint32_t wanted) {
    std::uint32_t covered = 0;
    while (at < end) {
        const unsigned char first = *at++;
        const int form = first >> 3 & 15;
        covered += (first & 7) + 1u;
        if (form == 13 || form == 14) {
            const unsigned raw = read_number(at, end);
            line += raw & 1 ? -static_cast<int>(raw >> 1) : static_cast<int>(raw >> 1);
        } else if (form >= 10 && form <= 12) {
            line += form - 10;
        }
        if (wanted < covered) {
            return line;
        }
        while (at < end && !(*at & 128)) {
            ++at;
        }
    }
    return line;
}

std::uint32_t letter_at(const char* data, unsigned width, std::size_t at) {
    std::uint32_t letter = 0;
    std::memcpy(&letter, data + at * width, width);  // little-endian, as everything here
    return letter;
}

char* put_utf8(char* out, std::uint32_t letter) {
    if (letter < 0x80) {
        *out++ = static_cast<char>(letter);
        return out;
    }
    const bool lone_surrogate = letter >= 0xD800 && letter < 0xE000;  // for a file name that is not UTF-8
    letter = lone_surrogate || letter > 0x10FFFF ? '?' : letter;
    if (letter == '?') {
        *out++ = '?';
    } else if (letter < 0x800) {
        *out++ = static_cast<char>(0xC0 | letter >> 6);
    } else if (letter < 0x10000) {
        *out++ = static_cast<char>(0xE0 | letter >> 12);
        *out++ = static_cast<char>(0x80 | (letter >> 6 & 63));
    } else {
        *out++ = static_cast<char>(0xF0 | letter >> 18);
        *out++ = static_cast<char>(0x80 | (letter >> 12 & 63));
        *out++ = static_cast<char>(0x80 | (letter >> 6 & 63));
    }
    if (letter != '?') {
        *out++ = static_cast<char>(0x80 | (letter & 63));
    }
    return out;
}

}  // namespace

Text text_of(const PythonLayout& layout, const void* unicode, TextBuffer& buffer) {
    const auto state = field<std::uint32_t>(unicode, UNICODE_STATE);
    const bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    if (compact && ascii) {
        return {static_cast<const char*>(unicode) + layout.unicode_ascii,
                static_cast<std::size_t>(field<std::int64_t>(unicode, UNICODE_LENGTH))};
    }
    // PyCompactUnicodeObject: utf8_length, utf8
    const char* utf8 = field<const char*>(unicode, layout.unicode_ascii + 8);
    if (compact && utf8) {
        return {utf8, static_cast<std::size_t>(field<std::int64_t>(unicode, layout.unicode_ascii))};
    }
    const unsigned width = state >> 2 & 7;
    if (!compact || (width != 1 && width != 2 && width != 4)) {
        return {"?", 1};
    }
    // After these two, and up to 3.11 a wstr_length: one, two or four bytes for each character.
    const char* data = static_cast<const char*>(unicode) + layout.unicode_ascii + (layout.minor <= 11 ? 24 : 16);
    const auto length = static_cast<std::size_t>(field<std::int64_t>(unicode, UNICODE_LENGTH));
    char* out = buffer.bytes;
    for (std::size_t at = 0; at < length && out + 4 <= buffer.bytes + sizeof buffer.bytes; ++at) {
        out = put_utf8(out, letter_at(data, width, at));
    }
    return {buffer.bytes, static_cast<std::size_t>(out - buffer.bytes)};
}

int line_of(const PythonLayout& layout, const void* code, std::uint32_t instruction) {
    const int first_line = field<int>(code, layout.first_line);
    const void* table = field<void*>(code, layout.line_table);
    const auto* data = static_cast<const unsigned char*>(table) + BYTES_DATA;
    const unsigned char* end = data + field<std::int64_t>(table, OBJECT_SIZE);
    return layout.minor == 10 ? line_by_pairs(data, end, first_line, instruction)
                              : line_by_locations(data, end, first_line, instruction);
}

}  // namespace ttmem::probe
