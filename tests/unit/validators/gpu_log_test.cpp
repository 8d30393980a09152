#include "validators/snapshot/gpu_log.h"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

namespace headroom::check {
namespace {

constexpr std::string_view kCsv =
    "timestamp, index, name, memory.used [MiB], memory.total [MiB]\n"
    "2026/05/01 12:00:00.000, 0, NVIDIA H100 80GB HBM3, 1000 MiB, 81559 MiB\n"
    "2026/05/01 12:00:00.001, 1, NVIDIA H100 80GB HBM3, 4 MiB, 81559 MiB\n"
    "2026/05/01 12:30:00.000, 0, NVIDIA H100 80GB HBM3, 3000 MiB, 81559 MiB\n"
    "2026/05/01 12:30:00.001, 1, NVIDIA H100 80GB HBM3, [N/A], 81559 MiB\n"
    "2026/05/01 13:00:00.000, 0, NVIDIA H100 80GB HBM3, 2000 MiB, 81559 MiB\n"
    "2026/05/01 13:00:00.001, 1, NVIDIA H1";

constexpr std::string_view kTable = R"(Fri May  1 12:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:04:00.0 Off |                    0 |
| N/A   33C    P0             71W /  700W |   12345MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|=========================================================================================|
|    0   N/A  N/A      1234      C   python                                      12340MiB |
+-----------------------------------------------------------------------------------------+
)";

constexpr std::string_view kMonitor =
    "# gpu     fb   bar1   ccpm\n"
    "# Idx     MB     MB     MB\n"
    "    0    100      2      0\n"
    "    1      -      -      -\n"
    "    0    200      2      0\n"
    "# gpu     fb   bar1   ccpm\n"
    "# Idx     MB     MB     MB\n"
    "    0    300      2      0\n"
    "    0    400      2      0\n";

Bytes mebibytes_of(std::int64_t count) {
  return Bytes{count * kMiB};
}

}  // namespace

TEST_CASE("gpu log: CSV of --query-gpu gives peaks, growth an hour, and leaves out what is cut") {
  REQUIRE(is_gpu_log(kCsv));
  const GpuLog log = read_gpu_log(kCsv, "log").value();
  REQUIRE(log.gpus.size() == 2);
  CHECK(log.gpus[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(log.gpus[0].total == mebibytes_of(81'559));
  const UseTrend trend = trend_of(log.gpus[0]);
  CHECK(trend.peak.used == mebibytes_of(3'000));
  CHECK(trend.first == mebibytes_of(1'000));
  CHECK(trend.last == mebibytes_of(2'000));
  CHECK(trend.per_hour.value() == doctest::Approx(1'000.0 * kMiB));
  CHECK_FALSE(trend.grows);
  CHECK(log.skipped == 2);
}

TEST_CASE("gpu log: CSV of --query-compute-apps names processes") {
  const GpuLog log = read_gpu_log(
                         "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
                         "GPU-1, 77, /usr/bin/python3, 500 MiB\n"
                         "GPU-1, 78, trainer, 600 MiB\n"
                         "GPU-1, 77, /usr/bin/python3, 700 MiB\n",
                         "log")
                         .value();
  CHECK(log.gpus.empty());
  REQUIRE(log.processes.size() == 2);
  CHECK(log.processes[0].process == 77);
  CHECK(log.processes[0].gpu == "GPU-1");
  CHECK(log.processes[0].name == "/usr/bin/python3");
  CHECK(trend_of(log.processes[0]).peak.used == mebibytes_of(700));
  CHECK_FALSE(trend_of(log.processes[0]).per_hour);
}

TEST_CASE("gpu log: tables, one after the other, with their processes") {
  std::string two = "epoch 1 of 3\n" + std::string(kTable) + "loss 0.5\n" + std::string(kTable);
  two.replace(two.rfind("12345MiB"), 8, "22345MiB");
  const GpuLog log = read_gpu_log(two, "log").value();
  REQUIRE(log.gpus.size() == 1);
  CHECK(log.gpus[0].gpu == "0");
  CHECK(log.gpus[0].name == "NVIDIA H100 80GB HBM3");
  CHECK(log.gpus[0].total == mebibytes_of(81'559));
  REQUIRE(log.gpus[0].samples.size() == 2);
  CHECK(log.gpus[0].samples[0].used == mebibytes_of(12'345));
  CHECK(log.gpus[0].samples[1].reading == 1);
  CHECK(log.gpus[0].samples[1].seconds.has_value());
  REQUIRE(log.processes.size() == 1);
  CHECK(log.processes[0].process == 1'234);
  CHECK(log.processes[0].name == "python");
  CHECK(log.processes[0].samples.size() == 2);
}

TEST_CASE("gpu log: dmon's rows grow, and pmon's name processes") {
  const GpuLog log = read_gpu_log(kMonitor, "log").value();
  REQUIRE(log.gpus.size() == 1);  // The other GPU has no figure.
  CHECK(log.gpus[0].samples.size() == 4);
  CHECK(trend_of(log.gpus[0]).grows);
  CHECK(trend_of(log.gpus[0]).quarters ==
        std::array{mebibytes_of(100), mebibytes_of(200), mebibytes_of(300), mebibytes_of(400)});
  CHECK(log.skipped == 1);
  const GpuLog processes = read_gpu_log(
                               "#Time        gpu         pid   type     fb   ccpm    command\n"
                               "#HH:MM:SS    Idx           #    C/G     MB     MB    name\n"
                               " 12:00:00      0       1234     C   12340      0    python\n"
                               " 12:00:01      0          -     -       -      -    -\n",
                               "log")
                               .value();
  REQUIRE(processes.processes.size() == 1);
  CHECK(processes.processes[0].name == "python");
  CHECK(trend_of(processes.processes[0]).peak.used == mebibytes_of(12'340));
}

TEST_CASE("gpu log: times without a date are seconds since midnight, and go on after the next") {
  const GpuLog log = read_gpu_log(
                         "#Time        gpu     fb   bar1   ccpm\n"
                         "#HH:MM:SS    Idx     MB     MB     MB\n"
                         " 00:00:01      0    100      2      0\n"
                         " 23:59:59      0    200      2      0\n"
                         " 00:00:01      0    300      2      0\n"
                         " 00:00:00      0    300      2      0\n"
                         " 23:00:00      0    400      2      0\n"
                         " 01:00:00      0    500      2      0\n",
                         "log")
                         .value();
  REQUIRE(log.gpus.size() == 1);
  std::vector<double> seconds;
  for (const UseSample& sample : log.gpus[0].samples) {
    seconds.push_back(sample.seconds.value());
  }
  CHECK(seconds == std::vector<double>{1, 86'399, 86'401, 86'400, 169'200, 176'400});
}

TEST_CASE("gpu log: a text without readings is refused with the command that records one") {
  CHECK_FALSE(is_gpu_log("step 1 loss 2.5\n"));
  const std::string power = "# gpu   pwr gtemp\n# Idx     W     C\n    0   100    40\n";
  CHECK(is_gpu_log(power));
  const Result<GpuLog> log = read_gpu_log(power, "power.log");
  REQUIRE_FALSE(log);
  CHECK(log.error().file == "power.log");
  CHECK(log.error().fix.find("dmon -s m") != std::string::npos);
  CHECK_FALSE(read_gpu_log("index, memory.used [MiB]\n0, 99999999999999 MiB\n0, -5 MiB\n", "l"));
}

}  // namespace headroom::check
