// The file of a region: private to its user, with all memory reserved before the first write.
#pragma once

#include <string>

#include "layout.hpp"
#include "settings.hpp"

namespace ttmem::probe {

struct Plan {
    SectionPlace sections[SECTIONS];
    std::uint64_t size;
};

constexpr char EARLIER[] = "_before";  // after the name of a region from before an exec (sources/shm.py)

Plan plan_for(std::uint32_t events, std::uint32_t live);

// The mapped file, all zero; null with the reason in `problem`.
void* map_region_file(const std::string& path, std::uint64_t size, std::string& problem);

std::uint64_t own_start_ticks();

}  // namespace ttmem::probe
