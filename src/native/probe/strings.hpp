// Interned texts: operations, call sites, kernel names.
#pragma once

#include <cstddef>

#include "region.hpp"

namespace ttmem::probe {

constexpr std::size_t MAX_TEXT = 4096;

// The number of a text; 0 if there is no space, or another thread is busy here.
std::uint32_t intern(Region& region, const char* text, std::size_t length);

void forget_strings();  // in the child of a fork

}  // namespace ttmem::probe
