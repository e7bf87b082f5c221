// Journal records as they stand in a recording (ttmem/recording/journal.py).
#pragma once

#include <cstddef>
#include <cstdint>

#include "event.hpp"

namespace ttmem {

// The latest time of the events of a chunk, at least `before`. The time of arrival stands in for one that is unknown or
// to come. Malformed if the chunk does not begin with a control record.
std::uint64_t reached(const Event* records, std::size_t count, std::uint64_t before);

// Columns become rows: the byte planes of records, and back.
void transpose(const char* from, std::size_t rows, std::size_t columns, char* to);

}  // namespace ttmem
