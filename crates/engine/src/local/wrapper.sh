# Runs a job's program and leaves behind how it ended, so that whoever looks later (a daemon that was restarted, say) can read it.
# A signal to the group reaches the program as well; this shell only waits on. Its arguments: the file for the exit code, then the program.
ending=$1
shift
trap : TERM INT HUP
"$@" &
program=$!
while :; do
  wait "$program"
  code=$?
  # A wait that a signal cut short says nothing about the program, which is still there.
  kill -0 "$program" 2>/dev/null || break
done
printf '%s\n' "$code" >"$ending.new" && mv "$ending.new" "$ending"
exit "$code"
