// Sets of cores, interned: rectangles of logical coordinates.
#pragma once

#include "region.hpp"

namespace ttmem::probe {

// CoreRange of the runtime.
struct Rectangle {
    std::size_t x0, y0, x1, y1;
    std::size_t cores() const { return (x1 - x0 + 1) * (y1 - y0 + 1); }
    bool plausible() const { return x0 <= x1 && y0 <= y1 && x1 < 1024 && y1 < 1024; }
};

struct CoreSet {
    std::uint32_t number;  // 0 = unknown
    std::uint32_t total;
};

CoreSet intern_cores(Region& region, const Rectangle* rectangles, std::size_t count);

void forget_core_sets();  // in the child of a fork

}  // namespace ttmem::probe
