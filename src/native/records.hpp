// The historical protocol: fixed records of 72, 112, 128 or 144 bytes with a common head.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event.hpp"

namespace ttmem {

struct Decoded {
    std::vector<Event> events;
    std::size_t used;  // bytes
    Stop stop;
};

// Decodes the plain reports (ALLOC, FREE, CB_*, KERNEL_*) from the start of `data`; stops before a record that needs
// attention: a query, an unknown type, padding or a tail that is not zero, or a pid that is neither 0 nor `pid` (0:
// any).
Decoded decode_records(const std::uint8_t* data, std::size_t size, std::size_t record_size, std::int32_t pid);

}  // namespace ttmem
