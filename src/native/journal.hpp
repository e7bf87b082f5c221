// Journal records as stored in a recording (ttmem/recording/format.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event.hpp"

namespace ttmem {

// The latest time of the events in journal records, which come in any parts. The time of arrival replaces a time that is
// unknown or in the future.
class Reached {
public:
    explicit Reached(std::uint64_t before) : latest(before) {}

    // Malformed if the first record of all is no control record.
    void take(const Event* records, std::size_t count);

    std::uint64_t latest;

private:
    std::uint64_t events_ = 0;  // of the last batch that are still to come
    std::uint64_t arrived_ = 0;
    std::size_t skipped_ = 0;  // records of a mask that are still to come
};

struct Piece {
    const char* data;
    std::size_t records;
};

// Journal records as byte planes of `count` bytes each, which is the number of records; the time that they reach.
std::uint64_t planes(const std::vector<Piece>& pieces, std::uint64_t before, char* to, std::size_t count);

// Columns become rows: the byte planes of records, and back. Row n of the result begins at `to` + n * `stride`.
void transpose(const char* from, std::size_t rows, std::size_t columns, char* to, std::size_t stride);

}  // namespace ttmem
