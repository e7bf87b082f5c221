// The hash of an interned text, which is part of its record's checksum.
#pragma once

#include "layout.hpp"

namespace ttmem::probe {

inline std::uint64_t text_hash(const char* text, std::size_t length) {
    std::uint64_t sum = length;
    for (; length >= 8; text += 8, length -= 8) {
        std::uint64_t word;
        std::memcpy(&word, text, 8);
        sum = mixed(sum, word);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, text, length);
    return mixed(sum, rest) | 1;
}

}  // namespace ttmem::probe
