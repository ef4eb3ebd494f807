#!/bin/sh
# usage: job NUMBER DIR [tied]
# Runs a job of `knee jobs run`: line NUMBER of the file `list` beside this script. Writes below DIR: the output of
# the job to jobs/NUMBER.log, and then its exit status, the times of its start and end, and the name of the machine
# to jobs/NUMBER.status. The job finds the directory for its results in KNEE_OUT. With `tied`, the job ends if
# standard input is closed, that is if knee ends or the connection to it breaks.
mask=$(umask)
# Nobody else may write to the status and the output, whatever the umask of the job.
umask go-w

# A default ACL of the directory can override the umask, but not the permissions that a file is created with.
# directory PATH: creates a directory unless it exists.
directory() {
    [ -d "$1" ] || { mkdir -p -m 700 "$1"; chmod +rx "$1"; [ -d "$1" ]; }
}

# file PATH: creates an empty file.
file() {
    new=$(mktemp "$1.XXXXXX") && { chmod +r "$new"; mv -f "$new" "$1"; }
}

here=$(cd "$(dirname "$0")" && pwd) && directory "$2/jobs" && directory "$2/results" && dir=$(cd "$2" && pwd) || exit
log=$dir/jobs/$1.log
status=$dir/jobs/$1.status
# A status of an earlier attempt must not count for this one.
rm -f "$status"
file "$log" || exit
line=$(sed -n "$1p" "$here/list")
KNEE_JOB=$1
KNEE_OUT=$dir/results
export KNEE_JOB KNEE_OUT

# end GROUP: asks the processes of a group to end, and kills those that still run after two seconds.
end() {
    # The leader may not have created its group yet.
    kill -TERM "-$1" || kill -TERM "$1"
    n=0
    while kill -0 "-$1" && [ $n -lt 20 ]; do
        sleep 0.1
        n=$((n + 1))
    done
    kill -KILL "-$1" "$1"
}

begun=$(date +%s.%N)
if [ "${3-}" = tied ]; then
    exec 3<&0
    # A group of its own, so that its children end with it.
    (umask "$mask" && exec setsid sh -c "$line") >"$log" 2>&1 </dev/null 3<&- &
    group=$!
    ended=$status.$$
    # Nobody writes to standard input: `read` returns when it is closed. The directory may be gone then, and `:` would
    # end this shell if it cannot create the file.
    { read -r nothing <&3; true >"$ended"; end "$group"; } >/dev/null 2>&1 &
    watch=$!
    wait "$group"
    code=$?
    # What the job left in the background would outlive it.
    kill -KILL "-$group" 2>/dev/null
    kill "$watch" 2>/dev/null
    if [ -e "$ended" ]; then
        # This attempt did not end by itself, and another one may run already.
        rm -f "$ended"
        exit "$code"
    fi
else
    (umask "$mask" && exec sh -c "$line") >"$log" 2>&1 </dev/null
    code=$?
fi
file "$status.new" && echo "$code $begun $(date +%s.%N) $(uname -n)" >"$status.new" && mv "$status.new" "$status"
exit "$code"
