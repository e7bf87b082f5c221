// Somebody may truncate the file under a mapping; the next write would be a SIGBUS in the application.
#pragma once

#include <cstddef>

namespace ttmem::probe {

// From now on such a fault puts zeroes (tracking = 0) where the file was, and the application goes on. Faults
// elsewhere go to whoever handled them before.
void stop_guarding();  // the region is unmapped: what comes to lie there is the application's

void guard_against_truncation(void* memory, std::size_t size);

}  // namespace ttmem::probe
