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

}  // namespace

Text text_of(const PythonLayout& layout, const void* unicode) {
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
    return {"?", 1};
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
