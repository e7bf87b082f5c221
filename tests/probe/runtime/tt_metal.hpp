// As much of the runtime as the probe can see: the same names, and objects that say what a test told them.
//
// HALF: only half of the names, as a version might have that nobody knows yet.
// NO_RANGES: all but those that tell where in a mesh a program runs.
// OLD: a buffer of 0.69 to 0.75, most of whose facts are only in its fields. MOVED: the same, but in other places.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ttsl {
template <typename T, typename Tag>
struct StrongType {
    T value;
};
}  // namespace ttsl

namespace tt {
enum class ARCH { BLACKHOLE = 3 };

namespace tt_metal {

enum class BufferType { DRAM, L1, SYSTEM_MEMORY, L1_SMALL, TRACE };
enum class HalMemType : std::uint8_t { L1, DRAM };
struct xy {
    std::size_t x, y;
};
struct CoreRange {
    xy start, end;
};
class CoreRangeSet {
public:
    const std::vector<CoreRange>& ranges() const;
    std::vector<CoreRange> all;
};

class Allocator {
public:
    std::uint32_t get_num_banks(const BufferType& type) const;
    std::uint64_t get_bank_size(const BufferType& type) const;
    std::uint32_t get_alignment(BufferType type) const;
    std::uint64_t get_base_allocator_addr(const HalMemType& type) const;
};

class IDevice {
public:
    virtual ~IDevice() = default;
    virtual ARCH arch() const { return ARCH::BLACKHOLE; }
    virtual int id() const = 0;
};

class DispatchTopology {};

class Device : public IDevice {
public:
    explicit Device(int chip) : chip(chip) {}
    int id() const override { return chip; }
    bool close();
    bool compile_fabric();
    void configure_command_queue_programs(DispatchTopology* topology);
    int chip;
};

class Buffer {
public:
    std::uint32_t address() const;
    std::uint64_t aligned_size_per_bank() const;
    Allocator* allocator() const;
#ifdef OLD
    std::uint64_t page_size() const;
    std::uint32_t num_pages() const;
    bool is_l1() const;
    bool is_dram() const;

    void* shared_from_this[2] = {};
#ifdef MOVED
    void* new_field = nullptr;
#endif
#else
    std::uint64_t size() const;
    BufferType buffer_type() const;
    std::uint64_t unique_id() const;
    int buffer_layout() const;
    IDevice* device() const;

#endif
    IDevice* where;
    std::uint64_t bytes;
    BufferType type;
    int layout = 0;
    std::uint64_t number, per_bank;
    std::uint32_t place;
};

class AllocatorImpl {
public:
    std::uint64_t allocate_buffer(Buffer* buffer);
};

class SharedMemoryStatsProvider {
public:
    SharedMemoryStatsProvider(std::uint64_t unique_id, int chip, bool, bool);
};

class GraphTracker {
public:
    void track_allocate(const Buffer* buffer);
    void track_deallocate(Buffer* buffer);
    void track_allocate_cb(const CoreRangeSet&, std::uint64_t, std::uint64_t, bool, const IDevice*);
};

struct JitBuildOptions {};
struct TensorSpec {};
enum class ProgramBinaryStatus : std::uint8_t { NotSent, InFlight, Committed };

// One data-movement processor's binary, on a rectangle of cores.
class Kernel {
public:
    std::vector<std::string> file_paths(const IDevice& device, const std::string& root) const;
    std::uint32_t get_binary_packed_size(IDevice* device, int index) const;
    std::vector<CoreRange> logical_coreranges() const;

    std::string name;
    std::uint32_t packed_size;
};

namespace detail {
class ProgramImpl {
public:
    struct CircularBufferAllocator {
        CoreRange range;
        void mark_address(std::uint64_t address, std::uint64_t size, std::uint64_t base);
    };
    std::uint64_t get_id() const;
    void allocate_circular_buffers(const IDevice* device);
    void deallocate_circular_buffers();
    void allocate_dataflow_buffers(const IDevice* device);
    void validate_circular_buffer_region(const IDevice* device);

    std::uint64_t number = 0;
    std::vector<std::uint64_t> sizes;
    bool laid_out = false;
    std::vector<IDevice*> devices;
    std::vector<std::shared_ptr<Kernel>> kernels;
};
}  // namespace detail

// The handle of an implementation, as the runtime has it.
struct Program {
    detail::ProgramImpl* implementation;
};

namespace distributed {
struct MeshTraceIdTag;
using MeshTraceId = ttsl::StrongType<std::uint32_t, MeshTraceIdTag>;

class MeshDevice;
class MeshDeviceImpl {
public:
    void close_impl(MeshDevice* handle);
    std::vector<int> get_device_ids() const;
    const std::unique_ptr<Allocator>& allocator() const;
    xy compute_with_storage_grid_size() const;
    std::uint32_t l1_size_per_core() const;
    ARCH arch() const;
    void begin_mesh_trace(std::uint8_t queue, const MeshTraceId& id);
    void end_mesh_trace(std::uint8_t queue, const MeshTraceId& id);
    void replay_mesh_trace(std::uint8_t queue, const MeshTraceId& id, bool blocking);
    void release_mesh_trace(const MeshTraceId& id);

    std::vector<int> chips;  // row by row
    int columns = 1;
    bool shared = false;  // other meshes keep its devices open
    std::unique_ptr<Allocator> memory{new Allocator};
};

class MeshCommandQueue {
public:
    explicit MeshCommandQueue(MeshDevice* mesh) : mesh(mesh) {}
    virtual ~MeshCommandQueue() = default;
    MeshDevice* mesh;
};

// Like the runtime's, it has its numbers in itself and points to them: it cannot be copied byte by byte.
class MeshCoordinate {
public:
    MeshCoordinate(std::uint32_t row, std::uint32_t column) : numbers{row, column} {}
    MeshCoordinate(const MeshCoordinate& other) : MeshCoordinate(other.first[0], other.first[1]) {}
    ~MeshCoordinate() {}
    std::span<const std::uint32_t> coords() const;

private:
    const std::uint32_t* first = numbers;
    std::uint32_t numbers[8];
};

class MeshCoordinateRange {
public:
    const MeshCoordinate& start_coord() const;
    const MeshCoordinate& end_coord() const;
    MeshCoordinate start, end;
};

class MeshDeviceView {
public:
    MeshCoordinate find_device(int chip) const;
    const MeshDeviceImpl* mesh;
};

class MeshDevice : public IDevice {
public:
    int id() const override;
    std::vector<int> get_device_ids() const;
    int number;
    const MeshDeviceView& get_view() const;
    MeshDeviceImpl impl;
    MeshDeviceView view{&impl};
    MeshCommandQueue queue{this};
};

class MeshWorkloadImpl {
public:
    ~MeshWorkloadImpl();
    void add_program(const MeshCoordinateRange& range, Program&& program);
    void compile(MeshDevice* mesh);
    void finalize_offsets(MeshDevice* mesh);
    void load_binaries(MeshCommandQueue& queue);
    void set_program_binary_status(std::size_t mesh_id, ProgramBinaryStatus status);
    ProgramBinaryStatus get_program_binary_status(std::size_t mesh_id) const;

    std::vector<Program> programs;
    bool compiled = false;
    MeshDevice* mesh = nullptr;
    Buffer* binaries = nullptr;
    bool sent = false;
    ProgramBinaryStatus status{};
};
struct MeshWorkload {
    MeshWorkloadImpl* implementation;
};
void EnqueueMeshWorkload(MeshCommandQueue& queue, MeshWorkload& workload, bool blocking);
}  // namespace distributed

class Inspector {
public:
    static void mesh_device_initialized(const distributed::MeshDeviceImpl* mesh) noexcept;
    static void program_created(const detail::ProgramImpl* program) noexcept;
    static void program_destroyed(const detail::ProgramImpl* program) noexcept;
    static void program_kernel_compile_finished(const detail::ProgramImpl* program, const IDevice* device,
                                                const std::shared_ptr<Kernel>& kernel, const JitBuildOptions& options,
                                                const std::string& root) noexcept;
    static void program_compile_finished(const detail::ProgramImpl* program, const IDevice* device,
                                         std::uint64_t build_key) noexcept;
    static void emit_debug_entry(const distributed::MeshWorkloadImpl* workload, std::uint64_t runtime_id,
                                 std::string_view operation, std::vector<TensorSpec> specs,
                                 std::optional<distributed::MeshTraceId> trace) noexcept;
};

}  // namespace tt_metal
}  // namespace tt
