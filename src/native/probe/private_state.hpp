// Everything that the probe keeps outside the region.
#pragma once

namespace ttmem::probe {

// In the child of a fork, where one thread is left and no lock is held by anybody else.
void forget_private_state();

}  // namespace ttmem::probe
