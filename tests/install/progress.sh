#!/bin/sh
# What `run` says while it builds, with a ninja that only pretends to.
# progress.sh FOLDER SHELL...: FOLDER is for files, SHELL... executes `run`.
set -eu
source=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
folder=$1
shift
shell=$*

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# A source tree that is configured and whose program prints its arguments.
rm -rf -- "$folder"
build=$folder/build/release
mkdir -p -- "$build/cli" "$folder/bin"
folder=$(CDPATH='' cd -- "$folder" && pwd -P)
build=$folder/build/release
cp -- "$source/run" "$folder/run"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\n' "$folder" >"$build/CMakeCache.txt"
: >"$build/build.ninja"
printf '#!/bin/sh\necho "answer to $*"\n' >"$build/cli/headroom"
# Each step takes seven seconds by its own account.
cat >"$folder/bin/ninja" <<'NINJA'
#!/bin/sh
case " $* " in *' -n '*) echo '[1/10] a step' && exit ;; esac
[ "$NINJA_STATUS" = '[%f/%t %e] ' ] || exit 9
echo "ninja: Entering directory \`build'"
step=0
while [ $step -lt "$STEPS" ]; do
  step=$((step + 1))
  echo "[$step/10 $((step * 7)).089] Building CXX object a.dir/$step.cpp.o"
done
[ "$STEPS" = 10 ] || {
  echo 'FAILED: a.dir/9.cpp.o'
  echo '/usr/bin/c++ -c 9.cpp'
  printf '%s\n' '9.cpp:1:2: error: 100 % wrong \n'
  echo '[9/10 60.000] Building CXX object a.dir/10.cpp.o'
  echo 'ninja: build stopped: subcommand failed.'
  exit 1
}
NINJA
chmod +x "$build/cli/headroom" "$folder/bin/ninja"
PATH=$folder/bin:$PATH
export PATH
unset HEADROOM_PRESET

expect() { # STEPS STATUS OUT ERR: what `run fit` ends with and prints when STEPS of 10 steps succeed
  status=0
  # shellcheck disable=SC2086  # `busybox sh` is two words
  STEPS=$1 $shell "$folder/run" fit a 'b c' >"$folder/out" 2>"$folder/err" || status=$?
  [ "$status" = "$2" ] || fail "status $status instead of $2:" "$(cat "$folder/err")"
  printf '%s' "$3" | diff - "$folder/out" || fail "other words on stdout than expected"
  printf '%s' "$4" | diff - "$folder/err" || fail "other words on stderr than expected"
}

expect 10 0 'answer to fit a b c
' 'headroom: building (build/release.log)
headroom: building 3 of 10 (build/release.log)
headroom: building 6 of 10, about 30 s left (build/release.log)
headroom: building 9 of 10, a few seconds left (build/release.log)
'
# The log has every step, and nothing of the compiler's is interpreted.
[ "$(grep -c '^\[[0-9]*/10 ' "$build.log")" = 10 ] || fail "steps are missing in $build.log"

expect 4 4 '' "headroom: building (build/release.log)
headroom: building 3 of 10 (build/release.log)
headroom: building 9 of 10, a few seconds left (build/release.log)
FAILED: a.dir/9.cpp.o
/usr/bin/c++ -c 9.cpp
9.cpp:1:2: error: 100 % wrong \\n
ninja: build stopped: subcommand failed.
headroom: building failed (all of it: $folder/build/release.log)
"

# A build folder whose build.ninja can no longer be made again is configured afresh, once.
cat >"$folder/bin/ninja" <<'NINJA'
#!/bin/sh
case " $* " in *' -n '*) echo '[1/10] a step' && exit ;; esac
grep -q '^new$' "$FOLDER/build/release/build.ninja" && exit 0
echo "ninja: error: rebuilding 'build.ninja': subcommand failed"
exit 1
NINJA
cat >"$folder/bin/cmake" <<'CMAKE'
#!/bin/sh
mkdir -p "$FOLDER/build/release/cli"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\n' "$FOLDER" >"$FOLDER/build/release/CMakeCache.txt"
echo "${CONFIGURED-new}" >"$FOLDER/build/release/build.ninja"
printf '#!/bin/sh\necho "answer to $*"\n' >"$FOLDER/build/release/cli/headroom"
chmod +x "$FOLDER/build/release/cli/headroom"
CMAKE
printf '#!/bin/sh\n' >"$folder/bin/c++"
chmod +x "$folder/bin/cmake" "$folder/bin/c++"
FOLDER=$folder
export FOLDER
: >"$build/left-over"
expect 10 0 'answer to fit a b c
' "headroom: building (build/release.log)
headroom: the build folder does not fit these sources any more; configuring it afresh
headroom: configuring (build/configure.log)
headroom: building (build/release.log)
"
[ ! -e "$build/left-over" ] || fail "the folder was not made afresh"

CONFIGURED=old
export CONFIGURED
echo old >"$build/build.ninja"
expect 10 4 '' "headroom: building (build/release.log)
headroom: the build folder does not fit these sources any more; configuring it afresh
headroom: configuring (build/configure.log)
headroom: building (build/release.log)
ninja: error: rebuilding 'build.ninja': subcommand failed
headroom: building failed (all of it: $folder/build/release.log)
"
