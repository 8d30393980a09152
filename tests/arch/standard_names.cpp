#include "tests/arch/standard_names.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace headroom::arch {
namespace {

/// Names that a header gives, with blanks between them.
struct Row {
  std::string_view header;
  std::string_view names;
};

/// The standard library as far as the tree uses it. Beside what the standard says: no container can
/// do without size_t, <charconv> without errc, <filesystem> without error_code.
const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"algorithm",
       "adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal "
       "equal_range fill fill_n find find_if find_if_not for_each generate includes is_sorted "
       "lexicographical_compare lower_bound make_heap max max_element merge min min_element minmax "
       "minmax_element mismatch none_of nth_element partial_sort partition pop_heap push_heap "
       "ranges remove remove_if replace reverse rotate search set_difference set_intersection "
       "set_union shuffle sort stable_partition stable_sort transform unique upper_bound"},
      {"array", "array begin data end get size size_t"},
      {"atomic",
       "atomic memory_order_acq_rel memory_order_acquire memory_order_relaxed memory_order_release "
       "memory_order_seq_cst"},
      {"barrier", "barrier"},
      {"bit",
       "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit "
       "popcount"},
      {"bitset", "bitset size_t"},
      {"cctype", "isalnum isalpha isdigit isspace isupper tolower toupper"},
      {"charconv", "chars_format errc from_chars to_chars"},
      {"chrono", "chrono micro milli nano"},
      {"cmath",
       "abs cbrt ceil cos erf exp exp2 expm1 floor fmod frexp hypot isfinite isinf isnan ldexp "
       "llround "
       "lerp log log10 log1p log2 lround nan nearbyint nextafter pow round signbit sin sqrt tanh "
       "trunc"},
      {"concepts", "convertible_to floating_point integral invocable same_as"},
      {"condition_variable", "condition_variable condition_variable_any"},
      {"csignal", "raise sig_atomic_t signal"},
      {"cstddef", "byte max_align_t nullptr_t ptrdiff_t size_t"},
      {"cstdint",
       "INT16_MAX INT32_MAX INT32_MIN INT64_MAX INT64_MIN INT8_MAX SIZE_MAX UINT16_MAX UINT32_MAX "
       "UINT64_MAX UINT8_MAX int16_t int32_t int64_t int8_t intmax_t intptr_t uint16_t uint32_t "
       "uint64_t uint8_t uintmax_t uintptr_t"},
      {"cstdio", "fclose fflush fopen fprintf fputs perror printf remove size_t snprintf sscanf"},
      {"cstdlib",
       "_Exit abort abs aligned_alloc atoi exit free getenv malloc quick_exit size_t strtod "
       "strtoll strtoull "
       "system"},
      {"cstring", "memcmp memcpy memmove memset size_t strchr strcmp strerror strlen strrchr"},
      {"ctime", "strftime time time_t tm"},
      {"deque", "deque erase erase_if size_t"},
      {"exception",
       "current_exception exception exception_ptr make_exception_ptr rethrow_exception terminate "
       "uncaught_exceptions"},
      {"filesystem", "error_code filesystem"},
      {"fstream", "fstream ifstream ios ofstream ostream"},
      {"functional",
       "bind cref function greater hash invoke less multiplies plus reference_wrapper"},
      {"future", "async future launch packaged_task promise"},
      {"initializer_list", "initializer_list"},
      {"ios", "ios ios_base streamoff streamsize"},
      {"iosfwd", "istream ostream"},
      {"iostream", "cerr cin cout endl flush ios istream ostream"},
      {"istream", "getline ios istream"},
      {"iterator",
       "advance back_inserter begin data distance empty end inserter istreambuf_iterator "
       "make_move_iterator make_reverse_iterator next ostream_iterator prev rbegin rend size "
       "ssize"},
      {"limits", "numeric_limits"},
      {"list", "list size_t"},
      {"map", "erase_if initializer_list map multimap size_t"},
      {"memory",
       "addressof enable_shared_from_this make_shared make_unique shared_ptr unique_ptr weak_ptr"},
      {"mutex", "call_once lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock"},
      {"new", "bad_alloc launder nothrow"},
      {"numbers", "numbers"},
      {"numeric",
       "accumulate exclusive_scan gcd inclusive_scan inner_product iota lcm midpoint partial_sum "
       "reduce"},
      {"optional", "make_optional nullopt nullopt_t optional"},
      {"ostream", "endl flush ios ostream"},
      {"queue", "priority_queue queue"},
      {"random",
       "bernoulli_distribution mt19937 mt19937_64 normal_distribution random_device "
       "uniform_int_distribution uniform_real_distribution"},
      {"ranges", "ranges views"},
      {"regex",
       "cmatch regex regex_constants regex_match regex_replace regex_search smatch "
       "sregex_iterator"},
      {"set", "erase_if initializer_list multiset set size_t"},
      {"shared_mutex", "shared_lock shared_mutex"},
      {"span", "as_bytes size_t span ssize"},
      {"sstream", "ios istringstream ostream ostringstream stringbuf stringstream"},
      {"stack", "stack"},
      {"stdexcept",
       "domain_error invalid_argument length_error logic_error out_of_range overflow_error "
       "range_error runtime_error"},
      {"stop_token", "stop_callback stop_source stop_token"},
      {"streambuf", "streambuf"},
      {"string",
       "char_traits erase erase_if getline initializer_list size size_t ssize stod stoi stol stoll "
       "stoul stoull string string_literals to_string"},
      {"string_view", "size_t string_view"},
      {"system_error",
       "errc error_category error_code generic_category make_error_code system_category "
       "system_error"},
      {"thread", "jthread this_thread thread"},
      {"tuple",
       "apply forward_as_tuple get ignore make_tuple tie tuple tuple_element_t tuple_size_v"},
      {"typeindex", "type_index"},
      {"type_traits",
       "conditional_t decay_t enable_if_t false_type integral_constant invoke_result_t "
       "is_arithmetic_v is_const_v is_convertible_v is_enum_v is_floating_point_v is_integral_v "
       "is_invocable_r_v is_invocable_v is_nothrow_move_constructible_v is_same_v is_signed_v "
       "is_trivially_copyable_v is_void_v make_signed_t "
       "make_unsigned_t remove_const_t remove_cvref_t remove_pointer_t remove_reference_t "
       "true_type "
       "underlying_type_t void_t"},
      {"typeinfo", "type_info"},
      {"unordered_map", "erase_if size_t unordered_map unordered_multimap"},
      {"unordered_set", "erase_if size_t unordered_set"},
      {"utility",
       "as_const cmp_equal cmp_greater cmp_less declval exchange forward get in_place "
       "in_place_index in_place_type index_sequence integer_sequence make_index_sequence make_pair "
       "move pair piecewise_construct swap"},
      {"variant",
       "get get_if holds_alternative monostate variant variant_alternative_t variant_size_v visit"},
      {"vector", "erase erase_if initializer_list size size_t ssize vector"},
  };
  return table;
}

using HeadersByName = std::map<std::string_view, std::vector<std::string_view>>;

HeadersByName headers_by_name() {
  HeadersByName headers;
  for (const Row& row : rows()) {
    for (std::size_t at = 0; at < row.names.size();) {
      const std::size_t end = std::min(row.names.find(' ', at), row.names.size());
      headers[row.names.substr(at, end - at)].push_back(row.header);
      at = end + 1;
    }
  }
  return headers;
}

}  // namespace

std::vector<std::string_view> headers_of_standard(std::string_view name) {
  static const HeadersByName headers = headers_by_name();
  const auto found = headers.find(name);
  return found == headers.end() ? std::vector<std::string_view>() : found->second;
}

}  // namespace headroom::arch
