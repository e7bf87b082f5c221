#include "features.hpp"

#include <cstdio>
#include <cstring>

#include "python_frames.hpp"
#include "runtime.hpp"
#include "settings.hpp"

namespace ttmem::probe {

namespace {

struct Feature {
    const char* name;
    const char* symbols[5];  // it needs all of them
};

#define METAL "_ZN2tt8tt_metal"
#define CONST_METAL "_ZNK2tt8tt_metal"
#define PROGRAM_OF METAL "6detail11ProgramImpl"
#define WORKLOAD_OF METAL "11distributed16MeshWorkloadImpl"
#define MESH_OF METAL "11distributed14MeshDeviceImpl"

const Feature FEATURES_WANTED[] = {
    {"devices", {"_ZTVN2tt8tt_metal11distributed10MeshDeviceE", CONST_METAL "11distributed10MeshDevice2idEv",
                 CONST_METAL "11distributed10MeshDevice14get_device_idsEv", METAL "6Device5closeEv"}},
    {"capacities", {CONST_METAL "11distributed14MeshDeviceImpl14get_device_idsEv",
                    CONST_METAL "11distributed14MeshDeviceImpl9allocatorEv",
                    CONST_METAL "9Allocator13get_num_banksERKNS0_10BufferTypeE",
                    CONST_METAL "9Allocator13get_bank_sizeERKNS0_10BufferTypeE",
                    METAL "9Inspector23mesh_device_initializedEPKNS0_11distributed14MeshDeviceImplE"}},
    {"closed meshes", {MESH_OF "10close_implEPNS1_10MeshDeviceE"}},
    {"unique ids", {METAL "25SharedMemoryStatsProviderC1Emibb"}},
    {"buffers", {METAL "12GraphTracker14track_allocateEPKNS0_6BufferE",
                 METAL "12GraphTracker16track_deallocateEPNS0_6BufferE", CONST_METAL "6Buffer7addressEv"}},
    {"reserved bytes", {CONST_METAL "6Buffer21aligned_size_per_bankEv", CONST_METAL "6Buffer9allocatorEv",
                        CONST_METAL "9Allocator13get_alignmentENS0_10BufferTypeE",
                        CONST_METAL "9Allocator13get_num_banksERKNS0_10BufferTypeE"}},
    {"circular buffers", {PROGRAM_OF "25allocate_circular_buffersEPKNS0_7IDeviceE",
                          METAL "12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE",
                          CONST_METAL "12CoreRangeSet6rangesEv"}},
    {"dataflow buffers", {PROGRAM_OF "25allocate_dataflow_buffersEPKNS0_7IDeviceE",
                          PROGRAM_OF "23CircularBufferAllocator12mark_addressEmmm"}},
    {"scratchpads", {PROGRAM_OF "20allocate_scratchpadsEPKNS0_7IDeviceE",
                     PROGRAM_OF "23CircularBufferAllocator12mark_addressEmmm"}},
    {"programs", {METAL "9Inspector15program_createdEPKNS0_6detail11ProgramImplE",
                  METAL "9Inspector17program_destroyedEPKNS0_6detail11ProgramImplE",
                  CONST_METAL "6detail11ProgramImpl6get_idEv"}},
    {"kernels", {METAL "9Inspector31program_kernel_compile_finishedEPKNS0_6detail11ProgramImplEPKNS0_7IDeviceERKSt10"
                       "shared_ptrINS0_6KernelEERKNS0_15JitBuildOptionsERKNSt7__cxx1112basic_stringIcSt11char_"
                       "traitsIcESaIcEEE",
                 CONST_METAL "6Kernel10file_pathsERKNS0_7IDeviceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
                 CONST_METAL "6Kernel22get_binary_packed_sizeEPNS0_7IDeviceEi",
                 CONST_METAL "6Kernel18logical_corerangesEv"}},
    {"kernel binaries", {METAL "11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb",
                         CONST_METAL "11distributed16MeshWorkloadImpl25get_program_binary_statusEm"}},
    {"dispatches", {METAL "11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb",
                    WORKLOAD_OF "11add_programERKNS1_19MeshCoordinateRangeEONS0_7ProgramE"}},
    {"program cache", {METAL "11distributed19EnqueueMeshWorkloadERNS1_16MeshCommandQueueERNS1_12MeshWorkloadEb",
                       WORKLOAD_OF "11add_programERKNS1_19MeshCoordinateRangeEONS0_7ProgramE", WORKLOAD_OF "D1Ev"}},
    {"program ranges", {CONST_METAL "11distributed19MeshCoordinateRange11start_coordEv",
                        CONST_METAL "11distributed19MeshCoordinateRange9end_coordEv",
                        CONST_METAL "11distributed14MeshCoordinate6coordsEv",
                        CONST_METAL "11distributed10MeshDevice8get_viewEv",
                        CONST_METAL "11distributed14MeshDeviceView11find_deviceEi"}},
    {"operation names", {METAL "9Inspector16emit_debug_entryEPKNS0_11distributed16MeshWorkloadImplEmSt17basic_string_"
                               "viewIcSt11char_traitsIcEESt6vectorINS0_10TensorSpecESaISB_EESt8optionalIN4ttsl10"
                               "StrongTypeIjNS2_14MeshTraceIdTagEEEE"}},
    {"traces", {MESH_OF "16begin_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE",
                MESH_OF "14end_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE",
                MESH_OF "17replay_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEEb",
                MESH_OF "18release_mesh_traceERKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE"}},
    {"failed allocations", {METAL "13AllocatorImpl15allocate_bufferEPNS0_6BufferE",
                            PROGRAM_OF "31validate_circular_buffer_regionEPKNS0_7IDeviceE"}},
};

constexpr std::size_t WANTED = sizeof FEATURES_WANTED / sizeof *FEATURES_WANTED;

const char* first_missing(const Feature& feature) {
    for (const char* name : feature.symbols) {
        if (name && !Symbol(name).address()) {
            return name;
        }
    }
    return nullptr;
}

void write(FeatureRecord& record, const char* name, bool found) {
    std::snprintf(record.name, sizeof record.name, "%s", name);
    record.state.store(found ? 1 : 2, std::memory_order_release);
}

}  // namespace

void switch_off(const char* feature, const char* why) {
    say("%s: off, %s", feature, why);
    Region* region = mapped_region.load(std::memory_order_acquire);
    for (std::size_t i = 0; region && i < WANTED; ++i) {
        if (!std::strcmp(region->features[i].name, feature)) {
            write(region->features[i], feature, false);
        }
    }
}

void look_for_features(Region& region) {
    static_assert(WANTED < 64, "the table of the region has 64 places");
    if (region.features[0].state.load(std::memory_order_acquire)) {
        return;
    }
    for (std::size_t i = WANTED; i-- > 0;) {  // the first is written last: it says that all are there
        const char* missing = first_missing(FEATURES_WANTED[i]);
        write(region.features[i], FEATURES_WANTED[i].name, !missing);
        if (missing) {
            say("%s: off, this runtime has no %s", FEATURES_WANTED[i].name, missing);
        }
    }
    ThreadState* thread = thread_state();
    if (region.header->options & CALL_SITES && thread) {
        python_caller(region, *thread);
        if (const char* problem = call_sites_missing()) {
            say("call sites: off, %s", problem);
        }
        write(region.features[WANTED], "call sites", !call_sites_missing());
    }
}

}  // namespace ttmem::probe
