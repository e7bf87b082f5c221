#include "workloads.hpp"

#include "address_table.hpp"

namespace ttmem::probe {

namespace {

AddressTable<WorkloadParts, 16384> workloads;

std::uint64_t key_of(const void* workload) { return reinterpret_cast<std::uint64_t>(workload); }

}  // namespace

WorkloadParts* workload_parts(const void* workload, bool make) {
    return make ? workloads.find_or_insert(key_of(workload)) : workloads.find(key_of(workload));
}

void remove_workload(const void* workload) { workloads.remove(key_of(workload)); }

void forget_workloads() { workloads.forget(); }

}  // namespace ttmem::probe
