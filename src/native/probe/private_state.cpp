#include "private_state.hpp"

#include "core_sets.hpp"
#include "device_groups.hpp"
#include "programs.hpp"
#include "python_frames.hpp"
#include "python_operations.hpp"
#include "runtime_devices.hpp"
#include "strings.hpp"
#include "thread_state.hpp"
#include "workloads.hpp"

namespace ttmem::probe {

void forget_private_state() {
    forget_strings();
    forget_devices();
    forget_core_sets();
    forget_programs();
    forget_workloads();
    forget_runtime_devices();
    forget_operations();
    forget_walks();
    forget_thread();
}

}  // namespace ttmem::probe
