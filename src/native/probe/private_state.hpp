// Everything that the probe keeps outside the region.
#pragma once

namespace ttmem::probe {

// In a forked child, where only one thread is left and nobody else holds a lock.
void forget_private_state();

}  // namespace ttmem::probe
