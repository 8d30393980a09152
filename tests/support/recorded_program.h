#pragma once

#include <string_view>

namespace headroom::test {

/// Two blocks of 1 MiB and 100 bytes; the first is let go before it is freed. In `forward` the
/// cache is emptied and 512 bytes are allocated.
inline constexpr std::string_view kProgram =
    R"({"headroom_program":1,"command":["python","train.py"],
"versions":{"torch":"2.11.0"},"device":{"name":"h100-80gb","product":"NVIDIA H100",
"total_bytes":85017493504,"outside_bytes":552402944,"multiprocessors":132},"ranks":1,"rank":0,
"other_bytes":0,"alloc_conf":"","memory_fraction":1,"private_pools":false,"phases":[
{"name":"load","step":1,"micro_batch":1,"allocated_after":512,"peak_allocated":1049088,
 "reserved_after":2097152,"peak_reserved":2097152,"requested_after":1048676,
 "peak_requested":1048676,"retries":0},
{"name":"forward","step":1,"micro_batch":1,"allocated_after":1024,"peak_allocated":1024,
 "reserved_after":2097152,"peak_reserved":2097152,"requested_after":612,
 "peak_requested":1048676,"retries":0}],
"events":{"ends":[3,6],"lines":["train.py:1 f","train.py:2 g"],
"categories":["parameters","gradients","optimizer states","activations","other"],
"kinds":"aalfea","bytes":[1048576,100,512],"stream":[0,0,0],"line":[0,1,1],"category":[0,3,4],
"block":[0,0]}})";

}  // namespace headroom::test
