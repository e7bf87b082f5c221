// Where CPython keeps the frames of a thread, for the versions whose layout is known.
#pragma once

#include <cstdint>
#include <cstring>

namespace ttmem::probe {

// Offsets in bytes. The line table has been of two kinds: pairs (3.10) and location entries (3.11 and up).
struct PythonLayout {
    int minor;
    int thread_frame;     // in the thread state: the frame, or what points to it
    int through;          // offset of the frame in a C frame between the two; -1 = there is none
    int code, previous;   // in the frame
    int instruction;      // in the frame
    int owner;            // in the frame; -1 = none
    int locals;           // in the frame
    int first_line, filename, name, line_table;  // in the code object
    int version;          // in the code object: a number that no other code object has; -1 = none
    int bytecode;         // in the code object; -1 = the instruction is an index already
    int unicode_ascii;    // where the text of an ASCII string starts; of another one: the length and address of its UTF-8
};

constexpr PythonLayout PYTHON_LAYOUTS[] = {
    {10, 24, -1, 32, 24, 96, -1, 352, 40, 104, 112, 120, -1, -1, 48},
    {11, 56, 8, 32, 48, 56, 69, 72, 72, 112, 120, 136, -1, 184, 48},
    {12, 56, 0, 0, 8, 56, 70, 72, 68, 112, 120, 136, 92, 192, 40},
    {13, 72, -1, 0, 8, 56, 70, 72, 68, 112, 120, 136, 92, 200, 40},
};

constexpr int THREAD_INTERPRETER = 16;  // in the thread state, in all of them
constexpr int OBJECT_TYPE = 8;
constexpr int OBJECT_SIZE = 16;
constexpr int BYTES_DATA = 32;
constexpr int UNICODE_LENGTH = 16;
constexpr int UNICODE_STATE = 32;
constexpr char OWNED_BY_C = 3;  // a frame that only marks an entry from C

template <typename T>
T field(const void* object, int offset) {
    T value;
    std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
    return value;
}

}  // namespace ttmem::probe
