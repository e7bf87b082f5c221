// What this runtime lets us see. A missing symbol switches one feature off, with one line, here and in the region.
#pragma once

#include "region.hpp"

namespace ttmem::probe {

void look_for_features(Region& region);

// A feature whose symbols are there turned out not to work after all.
void switch_off(const char* feature, const char* why);

}  // namespace ttmem::probe
