#!/bin/sh
# How long building takes, from a fresh clone and without a compiler cache:
#   first   a clone, then `./run fit gpt2 --gpu a100-80gb`, until it has answered
#   tests   what `./run test` builds on top of that (nothing is run)
#   touch   one changed source of runtimes/megatron, then the same question again, until answered
#   headers how many translation units each of our headers reaches, tests included: the widest ten
#   ci      .ci/run in the same clone: release and sanitizers, built and run (takes long)
# Prints a table in Markdown; what the builds say goes to stderr. Measure on an idle machine.
#
# tests/bench/build.sh [--repository DIR|URL] [--commit REV] [--source FILE] [--keep] [PART...]
#   --repository  what to clone (default: this one)
#   --commit      what to check out there (default: its HEAD; changes not committed do not count)
#   --source      the file that `touch` changes (default: the longest .cpp of runtimes/megatron)
#   --keep        keep the clone, and say where it is
#   PART          some of the parts above, in their order (default: all but ci)
# The packages that `./run test` needs must be installed, for installing them would be measured.
# `taskset -c 0,1 tests/bench/build.sh` measures what two cores of a larger machine take.

# shellcheck disable=SC2016  # backticks in single quotes are Markdown
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
export LC_ALL=C CCACHE_DISABLE=1
unset HEADROOM_PRESET

say() { printf 'build.sh: %s\n' "$*" >&2; }
stop() {
  say "$@"
  exit 2
}

repository=$here commit='' source='' keep=no parts=''
while [ $# != 0 ]; do
  case $1 in
  --repository | --commit | --source)
    [ $# -ge 2 ] || stop "$1 needs a value"
    case $1 in
    --repository) repository=$2 ;;
    --commit) commit=$2 ;;
    --source) source=$2 ;;
    esac
    shift
    ;;
  --keep) keep=yes ;;
  --help)
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  first | tests | touch | headers | ci) parts="$parts $1" ;;
  *) stop "no such option or part: $1 (see --help)" ;;
  esac
  shift
done
wanted() { case " ${parts:-first tests touch headers} " in *" $1 "*) ;; *) return 1 ;; esac; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/headroom-build.XXXXXX")
clone=$folder/headroom
build=$clone/build/release
leave() {
  if [ $keep = yes ]; then say "kept: $clone"; else rm -rf -- "$folder"; fi
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

measure() { # COMMAND...: its seconds, in `seconds`; what it prints is shown on stderr
  began=$(date +%s)
  (cd -- "$clone" && "$@") >&2 || stop "failed: $*"
  seconds=$(($(date +%s) - began))
  say "$seconds s: $*"
}
answer() { measure ./run fit gpt2 --gpu a100-80gb; }
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3" >>"$folder/rows"; }

machine() {
  model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
  memory=$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo 2>/dev/null)
  load=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null) || load=unknown
  cat <<TEXT
* commit: $(git -C "$clone" log -1 --format='%h of %cs')
* machine: $(nproc 2>/dev/null || sysctl -n hw.ncpu) cores (${model:-$(uname -m)}), $((${memory:-0} / 1048576)) GiB of memory, load $load at the start
* compiler: $("${CXX:-c++}" --version | head -n 1); $(cmake --version | head -n 1); ninja $(ninja --version)
* compiler cache: off; packages installed before
TEXT
}

# Of `ninja -t deps` the lines "OBJECT: #deps N, ..." and, indented, the files that it was made from.
# A header of ours lies in the clone and not in the build folder. Paths may be relative to the latter.
count_headers() {
  ninja -C "$build" -t deps >"$folder/deps"
  awk -v root="$clone/" -v build="$build/" '
    /^[^ ].*: #deps / { units++; next }
    {
      file = $0
      sub(/^ +/, "", file)
      if (file !~ /^\//) file = build file
      while (sub(/\/[^\/]+\/\.\.\//, "/", file)) {}
      if (index(file, root) != 1 || index(file, build) == 1 || file !~ /\.h$/) next
      reached[substr(file, length(root) + 1)]++
    }
    END {
      print units, "all"
      for (file in reached) print reached[file], file
    }' "$folder/deps" | sort -k 1,1nr -k 2 >"$folder/headers"
}

git clone -q --no-hardlinks "$repository" "$clone" || stop "cannot clone $repository"
[ -z "$commit" ] || git -C "$clone" checkout -q "$commit" || stop "no such commit: $commit"
machine >"$folder/machine"
: >"$folder/rows"

if wanted first; then
  answer
  row 'fresh clone to the first answer (`./run fit gpt2 --gpu a100-80gb`)' "$seconds s" '<= 150 s'
fi
if wanted tests; then
  measure ./run build tests
  row 'build of `./run test` on top' "$seconds s" '<= 150 s'
fi
if wanted touch; then
  [ -x "$build/cli/headroom" ] || answer
  [ -n "$source" ] || source=$(cd -- "$clone" && find runtimes/megatron -name '*.cpp' -exec wc -c {} + |
    awk '$2 != "total"' | sort -k 1,1nr | awk 'NR == 1 { print $2 }')
  [ -f "$clone/$source" ] || stop "no such source: $source"
  sleep 1 # so that the file is newer than its object on any file system
  echo '// One more line.' >>"$clone/$source"
  answer
  row "changed \`$source\` to an answer" "$seconds s" '<= 15 s'
fi
if wanted headers; then
  [ -f "$build/.ninja_deps" ] || measure ./run build tests
  count_headers
  units=$(awk '$2 == "all" { print $1 }' "$folder/headers")
  widest=$(awk '$2 != "all" { print $1; exit }' "$folder/headers")
  row "translation units that the widest header reaches, of $units" "$widest" '<= 150'
fi
if wanted ci; then
  measure .ci/run
  row '`.ci/run`: release and sanitizers, built and run' "$((seconds / 60)) min $((seconds % 60)) s" \
    '<= 40 min'
fi

printf '# Building Headroom\n\n'
cat "$folder/machine"
printf '\n| what | measured | goal |\n|---|---:|---:|\n'
cat "$folder/rows"
if wanted headers; then
  printf '\n| header | translation units |\n|---|---:|\n'
  awk '$2 != "all" && n++ < 10 { printf "| `%s` | %s |\n", $2, $1 }' "$folder/headers"
fi
