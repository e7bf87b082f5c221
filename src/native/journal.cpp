#include "journal.hpp"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "ledger.hpp"

namespace ttmem {

namespace {

constexpr std::size_t MASK_RECORDS = sizeof(CoreMask) / sizeof(Event);

}  // namespace

void Reached::take(const Event* records, std::size_t count) {
    for (std::size_t at = 0; at < count;) {
        if (skipped_) {
            const std::size_t mask = std::min(count - at, skipped_);
            at += mask, skipped_ -= mask;
            continue;
        }
        if (events_) {
            const std::size_t end = at + std::min<std::uint64_t>(count - at, events_);
            events_ -= end - at;
            for (; at < end; ++at) {
                const std::uint64_t time = records[at].time;
                latest = std::max(latest, time && time <= arrived_ ? time : arrived_);
            }
            continue;
        }
        const Event& control = records[at++];
        if (control.op < BATCH) {
            throw Malformed("an event that belongs to no batch");
        }
        if (control.op == DEFINE_CORES) {
            skipped_ = MASK_RECORDS;
        } else if (control.op == BATCH) {
            events_ = control.size, arrived_ = control.time;
        }
    }
}

namespace {

constexpr std::size_t TILE = 16;    // rows and columns that are turned in registers
constexpr std::size_t BLOCK = 512;  // rows: 32 KiB of events, which stay in the nearest cache

void transpose_bytes(const char* from, std::size_t rows, std::size_t columns, std::size_t width, char* to,
                     std::size_t stride) {
    for (std::size_t c = 0; c < columns; ++c) {
        for (std::size_t r = 0; r < rows; ++r) {
            to[c * stride + r] = from[r * width + c];
        }
    }
}

#ifdef __SSE2__

using Bytes = __m128i;

// Rows are interleaved four times. Written out, so that they stay in registers: as loops it takes twice as long.
void transpose_tile(const char* from, std::size_t width, char* to, std::size_t stride) {
    Bytes rows[TILE], next[TILE];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < TILE; ++i) {
        rows[i] = _mm_loadu_si128(reinterpret_cast<const Bytes*>(from + i * width));
    }
#pragma GCC unroll 4
    for (int turn = 0; turn < 4; ++turn) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < TILE / 2; ++i) {
            next[2 * i] = _mm_unpacklo_epi8(rows[i], rows[i + TILE / 2]);
            next[2 * i + 1] = _mm_unpackhi_epi8(rows[i], rows[i + TILE / 2]);
        }
#pragma GCC unroll 16
        for (std::size_t i = 0; i < TILE; ++i) {
            rows[i] = next[i];
        }
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < TILE; ++i) {
        _mm_storeu_si128(reinterpret_cast<Bytes*>(to + i * stride), rows[i]);
    }
}

#else

void transpose_tile(const char* from, std::size_t width, char* to, std::size_t stride) {
    transpose_bytes(from, TILE, TILE, width, to, stride);
}

#endif

}  // namespace

void transpose(const char* from, std::size_t rows, std::size_t columns, char* to, std::size_t stride) {
    for (std::size_t block = 0; block < rows; block += BLOCK) {
        const std::size_t end = std::min(rows, block + BLOCK);
        for (std::size_t column = 0; column < columns; column += TILE) {
            const std::size_t width = std::min(TILE, columns - column);
            for (std::size_t row = block; row < end; row += TILE) {
                const std::size_t height = std::min(TILE, end - row);
                const char* tile = from + row * columns + column;
                char* place = to + column * stride + row;
                if (height == TILE && width == TILE) {
                    transpose_tile(tile, columns, place, stride);
                } else {
                    transpose_bytes(tile, height, width, columns, place, stride);
                }
            }
        }
    }
}

std::uint64_t planes(const std::vector<Piece>& pieces, std::uint64_t before, char* to, std::size_t count) {
    alignas(64) Event block[BLOCK];
    Reached reached(before);
    std::size_t filled = 0, done = 0;
    const auto flush = [&] {
        reached.take(block, filled);
        transpose(reinterpret_cast<const char*>(block), filled, sizeof(Event), to + done, count);
        done += filled, filled = 0;
    };
    for (const Piece& piece : pieces) {
        for (std::size_t at = 0; at < piece.records;) {
            const std::size_t taken = std::min(BLOCK - filled, piece.records - at);
            std::memcpy(static_cast<void*>(block + filled), piece.data + at * sizeof(Event), taken * sizeof(Event));
            filled += taken, at += taken;
            if (filled == BLOCK) {
                flush();
            }
        }
    }
    flush();
    return reached.latest;
}

}  // namespace ttmem
