#include "journal.hpp"

#include <algorithm>

#include "ledger.hpp"

namespace ttmem {

namespace {

constexpr std::size_t MASK_RECORDS = sizeof(CoreMask) / sizeof(Event);

}  // namespace

std::uint64_t reached(const Event* records, std::size_t count, std::uint64_t before) {
    std::uint64_t latest = before;
    for (std::size_t at = 0; at < count;) {
        const Event& control = records[at++];
        if (control.op < BATCH) {
            throw Malformed("an event that belongs to no batch");
        }
        const std::size_t left = count - at;
        if (control.op == DEFINE_CORES) {
            at += std::min(left, MASK_RECORDS);
        } else if (control.op == BATCH) {
            const std::size_t end = at + std::min<std::uint64_t>(left, control.size);
            for (; at < end; ++at) {
                const std::uint64_t time = records[at].time;
                latest = std::max(latest, time && time <= control.time ? time : control.time);
            }
        }
    }
    return latest;
}

void transpose(const char* from, std::size_t rows, std::size_t columns, char* to) {
    constexpr std::size_t BLOCK = 64;  // bytes: a line of the cache
    for (std::size_t row = 0; row < rows; row += BLOCK) {
        const std::size_t last_row = std::min(rows, row + BLOCK);
        for (std::size_t column = 0; column < columns; column += BLOCK) {
            const std::size_t last_column = std::min(columns, column + BLOCK);
            for (std::size_t c = column; c < last_column; ++c) {
                for (std::size_t r = row; r < last_row; ++r) {
                    to[c * rows + r] = from[r * columns + c];
                }
            }
        }
    }
}

}  // namespace ttmem
