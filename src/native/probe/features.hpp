// What this runtime lets us see. A missing symbol switches one feature off, with one line, here and in the region.
#pragma once

#include "region.hpp"

namespace ttmem::probe {

void look_for_features(Region& region);

}  // namespace ttmem::probe
