{
    # Runs the load in `line`, and ends it if standard input is closed, which is when the connection to knee ends. The
    # shell has read this script to its end before it runs it, so nothing else remains to be read.
    exec 3<&0
    # A group of its own, so that its children end with it.
    setsid sh -c "$line" </dev/null 3<&- &
    group=$!
    {
        read -r nothing <&3
        # The leader may not have created its group yet.
        kill -TERM "-$group" || kill -TERM "$group"
        sleep 1
        kill -KILL "-$group" "$group"
    } >/dev/null 2>&1 &
    watch=$!
    wait "$group"
    code=$?
    # What the load left in the background would outlive it.
    kill -KILL "-$group" 2>/dev/null
    kill "$watch" 2>/dev/null
    echo
    echo knee-load ended
    # The second line has the CPU time of the load.
    times
    exit "$code"
}
