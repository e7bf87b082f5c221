// Programs and their kernels.
#include <memory>
#include <string>
#include <vector>

#include "accounts.hpp"
#include "attribution.hpp"
#include "core_sets.hpp"
#include "features.hpp"
#include "notices.hpp"
#include "programs.hpp"
#include "recording.hpp"
#include "runtime_devices.hpp"
#include "strings.hpp"

namespace ttmem::probe {

namespace {

#define TT_INSPECTOR "_ZN2tt8tt_metal9Inspector"

using Paths = std::vector<std::string>;

Function<Paths(const void*, const void*, const std::string&)> elf_files{
    "_ZNK2tt8tt_metal6Kernel10file_pathsERKNS0_7IDeviceERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"};
Function<std::uint32_t(const void*, const void*, int)> packed_size{
    "_ZNK2tt8tt_metal6Kernel22get_binary_packed_sizeEPNS0_7IDeviceEi"};
Function<std::vector<Rectangle>(const void*)> kernel_ranges{"_ZNK2tt8tt_metal6Kernel18logical_corerangesEv"};

void created(const Recording& recording, std::uint64_t program) {
    Region& region = recording.region();
    ThreadState& thread = recording.thread();
    const Attribution who = attribute(region, thread);
    LiveEntry entry{};
    entry.key = live_key(PROGRAM, program);
    entry.time = now_ns();
    entry.program = program;
    entry.name = who.name;
    entry.site = who.site;
    entry.kind = thread.program_type;
    entry.phase = thread.phase;
    entry.thread = thread.number;
    insert(region, entry);
    parts_of(program, true);
    Event event = notice(PROGRAM_CREATED, {0, 0}, program);
    event.kind = entry.kind;
    event.name = who.name;
    event.site = who.site;
    append(region, thread, event);
}

// ".../kernels/reader_unary/1234//brisc/brisc.elf" -> "reader_unary/brisc"
std::string kernel_name(const std::string& path) {
    std::vector<std::string> parts;
    for (std::size_t end = path.size(); end != std::string::npos && end > 0 && parts.size() < 4;) {
        const std::size_t slash = path.rfind('/', end - 1);
        const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
        if (start < end) {
            parts.push_back(path.substr(start, end - start));
        }
        end = slash;
    }
    return parts.size() == 4 ? parts[3] + "/" + parts[1] : path;
}

// The path contains a hash of source and options: equal paths are equal binaries, in every process.
std::uint64_t content_of(const std::string& path) {
    std::uint64_t sum = 0;
    for (const char letter : path) {
        sum = mixed(sum, static_cast<unsigned char>(letter));
    }
    return sum | 1;
}

void compiled(const Recording& recording, const void* program, const void* device, const void* kernel,
              const std::string& root) {
    Region& region = recording.region();
    const std::uint64_t id = program_id(program);
    const DeviceGroup group = group_of_program(region, id, device);
    ProgramParts* parts = parts_of(id, true);
    if (!parts || !group.mask) {
        return;
    }
    const std::vector<Rectangle> ranges = kernel_ranges(kernel);
    const CoreSet cores = intern_cores(region, ranges.data(), ranges.size());
    const LiveEntry* owner = find(region, live_key(PROGRAM, id));
    const Paths paths = elf_files(kernel, device, root);
    for (std::size_t i = 0; i < paths.size(); ++i) {
        const std::string name = kernel_name(paths[i]);
        LiveEntry entry{};
        entry.key = part_key(KERNEL, id, parts->kernels.fetch_add(1));
        entry.time = now_ns();
        entry.requested = packed_size(kernel, device, static_cast<int>(i));
        entry.address = content_of(paths[i]);
        entry.program = id;
        entry.mesh = mesh_number(device);
        entry.cores = cores.number;
        entry.number = cores.total;
        entry.kind = owner ? owner->kind : recording.thread().program_type;
        entry.name = intern(region, name.data(), name.size());
        entry.site = owner ? owner->site : 0;
        entry.path = intern(region, paths[i].data(), paths[i].size());
        hold(region, recording.thread(), entry, group, KERNEL_LOAD);
        count(region, group.mask, &Activity::kernels_loaded);
    }
}

std::uint64_t tell(const Recording& recording, std::uint8_t what, const void* program, const void* device) {
    const DeviceGroup group = group_of_program(recording.region(), program_id(program), device);
    if (group.mask) {
        append(recording.region(), recording.thread(), notice(what, group, program_id(program)));
    }
    return group.mask;
}

// Programs created meanwhile belong to fabric or dispatch.
class TypeScope {
public:
    explicit TypeScope(std::uint8_t type) : thread_(thread_state()) {
        if (thread_) {
            before_ = thread_->program_type;
            thread_->program_type = type;
        }
    }
    ~TypeScope() {
        if (thread_) {
            thread_->program_type = before_;
        }
    }
    TypeScope(const TypeScope&) = delete;
    TypeScope& operator=(const TypeScope&) = delete;

private:
    ThreadState* thread_;
    std::uint8_t before_ = 0;
};


}  // namespace

TTMEM_HOOK(void, on_created, TT_INSPECTOR "15program_createdEPKNS0_6detail11ProgramImplE", const void*)
void on_created(const void* program) {
    on_created_real(program);
    if (const Recording recording; recording && program_id(program)) {
        created(recording, program_id(program));
    }
}

TTMEM_HOOK(void, on_destroyed, TT_INSPECTOR "17program_destroyedEPKNS0_6detail11ProgramImplE", const void*)
void on_destroyed(const void* program) {
    // Even for one that was created while tracking was off: it may have joined a workload.
    if (const Recording recording{mapped_region.load(order::OBSERVE)}; recording) {
        release_program(recording.region(), recording.thread(), program_id(program));
    }
    on_destroyed_real(program);
}

TTMEM_HOOK(void, on_kernel,
           TT_INSPECTOR "31program_kernel_compile_finishedEPKNS0_6detail11ProgramImplEPKNS0_7IDeviceERKSt10shared_"
                        "ptrINS0_6KernelEERKNS0_15JitBuildOptionsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
           const void*, const void*, const std::shared_ptr<char>*, const void*, const std::string*)
void on_kernel(const void* program, const void* device, const std::shared_ptr<char>* kernel, const void* options,
               const std::string* root) {
    on_kernel_real(program, device, kernel, options, root);
    if (const Recording recording; recording && device && kernel && *kernel) {
        try {
            compiled(recording, program, device, kernel->get(), *root);
        } catch (...) {  // out of memory for a path, or a kernel that does not know its files
        }
    }
}

TTMEM_HOOK(void, on_compiled, TT_INSPECTOR "24program_compile_finishedEPKNS0_6detail11ProgramImplEPKNS0_7IDeviceEm",
           const void*, const void*, std::uint64_t)
void on_compiled(const void* program, const void* device, std::uint64_t build_key) {
    on_compiled_real(program, device, build_key);
    if (const Recording recording; recording) {
        const std::uint64_t devices = tell(recording, PROGRAM_COMPILED, program, device);
        count(recording.region(), devices, &Activity::programs_compiled);
    }
}

TTMEM_HOOK(void, on_finalize, "_ZN2tt8tt_metal6detail11ProgramImpl16finalize_offsetsEPNS0_7IDeviceE", void*, void*)
void on_finalize(void* program, void* device) {
    on_finalize_real(program, device);
    if (const Recording recording; recording) {
        tell(recording, PROGRAM_FINALIZED, program, device);
    }
}

TTMEM_HOOK(bool, on_compile_fabric, "_ZN2tt8tt_metal6Device14compile_fabricEv", void*)
bool on_compile_fabric(void* device) {
    const TypeScope scope(KERNEL_FABRIC);
    return on_compile_fabric_real(device);
}

TTMEM_HOOK(void, on_configure_fabric, "_ZN2tt8tt_metal6Device16configure_fabricEv", void*)
void on_configure_fabric(void* device) {
    const TypeScope scope(KERNEL_FABRIC);
    on_configure_fabric_real(device);
}

TTMEM_HOOK(void, on_configure_dispatch,
           "_ZN2tt8tt_metal6Device32configure_command_queue_programsEPNS0_16DispatchTopologyE", void*, void*)
void on_configure_dispatch(void* device, void* topology) {
    const TypeScope scope(KERNEL_DISPATCH);
    on_configure_dispatch_real(device, topology);
}

static const Feature programs{"programs", on_created_real, on_destroyed_real};
static const Feature kernels{"kernels", on_kernel_real, elf_files, packed_size, kernel_ranges};

}  // namespace ttmem::probe
