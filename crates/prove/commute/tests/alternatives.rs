//! Commutativity depends on what the interface returns and promises.

mod support;

use knee_commute::models::posix::{alternatives, posix};
use knee_commute::models::{directories, durability, processes, signals, sockets};
use knee_commute::{Extent, Interface, Limits, State, Verdict, explore, explore_pairs, models};
use snapbox::{assert_data_eq, str};
use support::shown;

/// Returns a text such as `4 of 8`: the two operations commute in four of eight situations.
fn share<S: State>(interface: &Interface<S>, names: [&str; 2]) -> String {
    let operations = names.map(|name| interface.operation(name).unwrap());
    let situations = explore(interface, &operations, &Limits::default()).unwrap().situations;
    let commute = situations.iter().filter(|situation| situation.verdict == Verdict::Commute);
    format!("{} of {}", commute.count(), situations.len())
}

#[test]
fn the_exploration_of_every_pair_of_every_interface_is_complete() {
    for model in models() {
        for (pair, exploration) in
            explore_pairs(&*model, &Limits::default(), |_, explored| explored.unwrap())
        {
            let names = pair.map(|nr| model.operations()[nr].0);
            assert_eq!(exploration.extent, Extent::default(), "{}: {names:?}", model.name());
        }
    }
}

#[test]
fn open_commutes_with_itself_if_it_may_return_any_descriptor() {
    let processes = processes::processes();
    assert_data_eq!(
        shown(&processes, &["open", "open"]),
        str![[r#"
commute: b is in the other process
differ: b is not in the other process: a sees lowest unused fd of proc0 in a, b, 2nd lowest unused fd of proc0 in b, a

"#]]
    );
    assert_eq!(share(&processes, ["open", "open"]), "4 of 8");
    assert_data_eq!(
        shown(&processes, &["open_anyfd", "open_anyfd"]),
        str![[r#"
commute: always

"#]]
    );
    assert_eq!(share(&processes, ["open_anyfd", "open_anyfd"]), "8 of 8");
    assert_eq!(share(&processes, ["dup", "dup"]), "18 of 39");
    assert_eq!(share(&processes, ["dup_anyfd", "dup_anyfd"]), "14 of 14");
}

#[test]
fn fork_copies_all_descriptors_and_posix_spawn_passes_only_one() {
    let processes = processes::processes();
    assert_data_eq!(
        shown(&processes, &["open", "fork"]),
        str![[r#"
commute: b is in the other process
differ: b is not in the other process: something or nothing is left

"#]]
    );
    assert_eq!(share(&processes, ["open", "fork"]), "2 of 4");
    assert_data_eq!(
        shown(&processes, &["open", "posix_spawn"]),
        str![[r#"
commute: lowest unused fd of proc0 ≠ b.fd
commute: b is in the other process
differ: b is not in the other process and lowest unused fd of proc0 = b.fd: b sees b.pid in a, b, EBADF in b, a

"#]]
    );
    assert_eq!(share(&processes, ["open", "posix_spawn"]), "10 of 12");
    assert_data_eq!(
        shown(&processes, &["close", "fork"]),
        str![[r#"
commute: b is in the other process
commute: proc0.fds has no a.fd
differ: proc0.fds has a.fd and b is not in the other process: nothing or something is left

"#]]
    );
    assert_data_eq!(
        shown(&processes, &["close", "posix_spawn"]),
        str![[r#"
commute: b.fd ≠ a.fd
commute: b is in the other process
commute: proc0.fds has no a.fd
differ: proc0.fds has a.fd and b is not in the other process and a.fd = b.fd: b sees EBADF in a, b, b.pid in b, a

"#]]
    );
    assert_data_eq!(
        shown(&processes, &["fork", "exec"]),
        str![[r#"
commute: b is in the other process
commute: proc0.fds has no proc0.cloexec
differ: b is not in the other process and proc0.fds has proc0.cloexec: something or nothing is left

"#]]
    );
}

#[test]
fn dup_makes_two_descriptors_share_an_offset_and_fork_commutes_with_lseek() {
    let processes = processes::processes();
    assert_data_eq!(
        shown(&processes, &["lseek", "fork"]),
        str![[r#"
commute: always

"#]]
    );
    assert_data_eq!(
        shown(&processes, &["lseek", "lseek"]),
        str![[r#"
commute: proc0.fds has no a.fd
commute: b.off = a.off
commute: b is not in the other process and proc0.fds[a.fd].description ≠ proc0.fds[b.fd].description and b.fd ≠ a.fd
commute: b is not in the other process and proc0.fds has no b.fd and b.fd ≠ a.fd
commute: b is in the other process and proc0.fds[a.fd].description ≠ proc1.fds[b.fd].description
commute: b is in the other process and proc1.fds has no b.fd
differ: proc0.fds has a.fd and b is in the other process and proc1.fds has b.fd and proc0.fds[a.fd].description = proc1.fds[b.fd].description and a.off < b.off: b.off or a.off is left

"#]]
    );
}

#[test]
fn operations_on_different_names_commute_except_rmdir_and_create_in_the_removed_directory() {
    let directories = directories::directories();
    assert_data_eq!(
        shown(&directories, &["create", "create"]),
        str![[r#"
commute: a.dir ≠ b.dir
commute: a.name ≠ b.name
commute: entries has a.dir/a.name
commute: dirs has no a.dir
differ: dirs has a.dir and entries has no a.dir/a.name and a.dir = b.dir and a.name = b.name: a sees 0 in a, b, EEXIST in b, a

"#]]
    );
    assert_data_eq!(
        shown(&directories, &["create", "unlink"]),
        str![[r#"
commute: a.dir ≠ b.dir
commute: a.name ≠ b.name
commute: dirs has no a.dir
commute: entries has a.dir/a.name and entries[a.dir/a.name] is a directory
differ: dirs has a.dir and entries[a.dir/a.name] is not a directory and a.dir = b.dir and a.name = b.name: a sees EEXIST in a, b, 0 in b, a
differ: dirs has a.dir and entries has no a.dir/a.name and a.dir = b.dir and a.name = b.name: b sees 0 in a, b, ENOENT in b, a

"#]]
    );
    assert_data_eq!(
        shown(&directories, &["rmdir", "create"]),
        str![[r#"
commute: a.dir ≠ b.dir and entries[a.dir/a.name].dir ≠ b.dir
commute: a.dir = b.dir and a.name ≠ b.name
commute: entries has a.dir/a.name and entries[a.dir/a.name] is not a directory
commute: dirs has no a.dir
commute: entries has no a.dir/a.name and a.dir ≠ b.dir
commute: entries has a.dir/a.name and dirs[entries[a.dir/a.name].dir].files ≥ 1
commute: entries has a.dir/a.name and dirs[entries[a.dir/a.name].dir].subdirs ≥ 1
differ: dirs has a.dir and entries[a.dir/a.name] is a directory and dirs[entries[a.dir/a.name].dir].files = 0 and dirs[entries[a.dir/a.name].dir].subdirs = 0 and a.dir = b.dir and a.name = b.name: b sees 0 in a, b, EEXIST in b, a
differ: dirs has a.dir and entries has a.dir/a.name and entries[a.dir/a.name] is a directory and dirs[entries[a.dir/a.name].dir].files = 0 and dirs[entries[a.dir/a.name].dir].subdirs = 0 and entries[a.dir/a.name].dir = b.dir: a sees 0 in a, b, ENOTEMPTY in b, a
differ: dirs has a.dir and entries has no a.dir/a.name and a.dir = b.dir and a.name = b.name: a sees ENOENT in a, b, ENOTDIR in b, a

"#]]
    );
}

#[test]
fn the_link_count_of_a_directory_reveals_its_subdirectories() {
    let directories = directories::directories();
    assert_data_eq!(
        shown(&directories, &["mkdir", "mkdir"]),
        str![[r#"
commute: a.dir ≠ b.dir
commute: a.name ≠ b.name
commute: entries has a.dir/a.name
commute: dirs has no a.dir
differ: dirs has a.dir and entries has no a.dir/a.name and a.dir = b.dir and a.name = b.name: a sees 0 in a, b, EEXIST in b, a

"#]]
    );
    assert_data_eq!(
        shown(&directories, &["mkdir", "fstat"]),
        str![[r#"
commute: a.dir ≠ b.dir
commute: entries has a.dir/a.name
commute: dirs has no a.dir
differ: dirs has a.dir and entries has no a.dir/a.name and a.dir = b.dir: b sees dirs[a.dir].subdirs + 3 in a, b, dirs[a.dir].subdirs + 2 in b, a

"#]]
    );
    assert_eq!(share(&directories, ["mkdir", "fstat"]), "12 of 13");
    assert_data_eq!(
        shown(&directories, &["mkdir", "fstatx"]),
        str![[r#"
commute: always

"#]]
    );
    assert_eq!(share(&directories, ["mkdir", "fstatx"]), "4 of 4");
    assert_data_eq!(
        shown(&directories, &["create", "fstat"]),
        str![[r#"
commute: always

"#]]
    );
}

#[test]
fn senders_commute_if_datagrams_have_no_order() {
    let sockets = sockets::sockets();
    assert_data_eq!(
        shown(&sockets, &["send", "send"]),
        str![[r#"
commute: a.socket ≠ b.socket
commute: ordered[a.socket].length ≥ 2
commute: ordered[a.socket].length = 0 and a.datagram = b.datagram
differ: ordered[a.socket].length = 1 and a.socket = b.socket: a sees 0 in a, b, EAGAIN in b, a
differ: ordered[a.socket].length ≤ 1 and a.socket = b.socket and a.datagram ≠ b.datagram: a.datagram or b.datagram is left

"#]]
    );
    assert_eq!(share(&sockets, ["send", "send"]), "6 of 8");
    assert_data_eq!(
        shown(&sockets, &["send_any", "send_any"]),
        str![[r#"
commute: unordered[a.socket].length ≠ 1
commute: a.socket ≠ b.socket
differ: unordered[a.socket].length = 1 and a.socket = b.socket: a sees 0 in a, b, EAGAIN in b, a

"#]]
    );
    assert_eq!(share(&sockets, ["send_any", "send_any"]), "7 of 8");
    assert_data_eq!(
        shown(&sockets, &["recv", "recv"]),
        str![[r#"
commute: a.socket ≠ b.socket
commute: ordered[a.socket].length = 0
commute: ordered[a.socket].length ≥ 2 and ordered[a.socket](0) = ordered[a.socket](1)
differ: ordered[a.socket].length = 1 and a.socket = b.socket: a sees ordered[a.socket](0) in a, b, EAGAIN in b, a
differ: ordered[a.socket].length ≥ 1 and a.socket = b.socket and ordered[a.socket](0) ≠ ordered[a.socket](1): a sees ordered[a.socket](0) in a, b, ordered[a.socket](1) in b, a

"#]]
    );
    assert_data_eq!(
        shown(&sockets, &["recv_any", "recv_any"]),
        str![[r#"
commute: a.socket ≠ b.socket
commute: unordered[a.socket].length ≠ 1
differ: unordered[a.socket].length = 1 and a.socket = b.socket: a sees unordered[a.socket](0) in a, b, EAGAIN in b, a

"#]]
    );
    assert_data_eq!(
        shown(&sockets, &["send_any", "recv_any"]),
        str![[r#"
commute: a.socket ≠ b.socket
commute: unordered[a.socket].length = 1
differ: unordered[a.socket].length ≥ 2 and a.socket = b.socket: a sees EAGAIN in a, b, 0 in b, a
differ: a.socket = b.socket and unordered[a.socket].length = 0: b sees a.datagram in a, b, EAGAIN in b, a

"#]]
    );
}

#[test]
fn standard_signals_commute_and_queued_signals_do_not() {
    let signals = signals::signals();
    assert_data_eq!(
        shown(&signals, &["kill", "kill"]),
        str![[r#"
commute: always

"#]]
    );
    assert_data_eq!(
        shown(&signals, &["sigqueue", "sigqueue"]),
        str![[r#"
commute: a.value = b.value
commute: a.signal is not SIGRTMIN and b.signal is SIGRTMIN
commute: a.signal is SIGRTMIN and b.signal is not SIGRTMIN
differ: a.signal is SIGRTMIN and b.signal is SIGRTMIN and a.value ≠ b.value: a.value or b.value is left

"#]]
    );
    assert_eq!(share(&signals, ["sigqueue", "sigqueue"]), "16 of 24");
    assert_data_eq!(
        shown(&signals, &["kill", "unblock"]),
        str![[r#"
commute: a.signal is not SIGINT and b.signal is SIGINT
commute: a.signal is SIGINT and b.signal is not SIGINT
commute: a.signal is not SIGINT and sigterm is not blocked
commute: a.signal is not SIGINT and sigterm is not pending
commute: a.signal is SIGINT and sigint is not blocked
commute: a.signal is SIGINT and sigint is not pending
differ: a.signal is not SIGINT and sigterm is blocked and b.signal is not SIGINT and sigterm is pending: sigterm.handled - 1 or sigterm.handled is left
differ: a.signal is SIGINT and sigint is blocked and b.signal is SIGINT and sigint is pending: sigint.handled - 1 or sigint.handled is left

"#]]
    );
}

#[test]
fn a_wait_for_one_signal_does_not_depend_on_others() {
    let signals = signals::signals();
    assert_data_eq!(
        shown(&signals, &["sigqueue", "sigwait"]),
        str![[r#"
commute: b.signal is standard
commute: a.signal is not SIGRTMIN and b.signal is SIGRTMIN
commute: a.signal is SIGRTMIN and b.signal is not SIGRTMIN
commute: a.signal is not SIGRTMIN and rtmax.length ≥ 1
commute: a.signal is SIGRTMIN and rtmin.length ≥ 1
differ: a.signal is SIGRTMIN and b.signal is not standard and b.signal is SIGRTMIN and rtmin.length = 0: b sees SIGRTMIN in a, b, EAGAIN in b, a
differ: a.signal is not SIGRTMIN and b.signal is not standard and b.signal is not SIGRTMIN and rtmax.length = 0: b sees SIGRTMAX in a, b, EAGAIN in b, a

"#]]
    );
    assert_eq!(share(&signals, ["sigqueue", "sigwait"]), "48 of 50");
    assert_eq!(share(&signals, ["sigqueue", "sigwait_any"]), "20 of 32");
    assert_data_eq!(
        shown(&signals, &["kill", "sigwait_any"]),
        str![[r#"
commute: a.signal is not SIGINT and sigterm is not blocked
commute: a.signal is SIGINT and sigint is not blocked
commute: a.signal is not SIGINT and sigint is blocked and sigint is pending
differ: a.signal is SIGINT and sigint is blocked: nothing pending or it pending is left
differ: a.signal is SIGINT and sigint is blocked: b sees SIGINT in a, b, EAGAIN in b, a
differ: a.signal is SIGINT and sigint is blocked: b sees SIGINT in a, b, SIGRTMAX in b, a
differ: a.signal is SIGINT and sigint is blocked: b sees SIGINT in a, b, SIGRTMIN in b, a
differ: a.signal is not SIGINT and sigterm is blocked and sigint is not blocked: b sees SIGTERM in a, b, EAGAIN in b, a
differ: a.signal is not SIGINT and sigterm is blocked and sigint is not blocked: b sees SIGTERM in a, b, SIGRTMAX in b, a
differ: a.signal is not SIGINT and sigterm is blocked and sigint is not blocked: b sees SIGTERM in a, b, SIGRTMIN in b, a
differ: a.signal is SIGINT and sigint is blocked: b sees SIGINT in a, b, SIGTERM in b, a

"#]]
    );
}

#[test]
fn a_weaker_sync_commutes_with_more_writes() {
    let durability = durability::durability();
    assert_data_eq!(
        shown(&durability, &["write", "sync"]),
        str![[r#"
commute: a.datum = cached[a.file][a.page]
differ: a.datum ≠ cached[a.file][a.page]: a.datum or cached[a.file][a.page] is left

"#]]
    );
    assert_data_eq!(
        shown(&durability, &["write", "fsync"]),
        str![[r#"
commute: a.datum = cached[a.file][a.page]
commute: a.file ≠ b.file
differ: a.file = b.file and a.datum ≠ cached[a.file][a.page]: a.datum or cached[a.file][a.page] is left

"#]]
    );
    assert_data_eq!(
        shown(&durability, &["write", "fsync_range"]),
        str![[r#"
commute: b.page ≠ a.page
commute: a.datum = cached[a.file][b.page]
commute: a.file ≠ b.file
differ: a.file = b.file and a.page = b.page and a.datum ≠ cached[a.file][b.page]: a.datum or cached[a.file][b.page] is left

"#]]
    );
    assert_data_eq!(
        shown(&durability, &["write_dsync", "fsync"]),
        str![[r#"
commute: always

"#]]
    );
    assert_data_eq!(
        shown(&durability, &["write_dsync", "sync"]),
        str![[r#"
commute: always

"#]]
    );
    assert_data_eq!(
        shown(&durability, &["fsync", "fsync"]),
        str![[r#"
commute: always

"#]]
    );
}

#[test]
fn fstatx_commutes_with_link_because_it_does_not_return_the_link_count() {
    let posix = alternatives::posix_plus();
    assert_eq!(share(&posix, ["link", "fstat"]), "48 of 50");
    assert_data_eq!(
        shown(&posix, &["link", "fstatx"]),
        str![[r#"
commute: always

"#]]
    );
    assert_eq!(share(&posix, ["link", "fstatx"]), "50 of 50");
    assert_eq!(share(&posix, ["unlink", "fstat"]), "16 of 18");
    assert_data_eq!(
        shown(&posix, &["unlink", "fstatx"]),
        str![[r#"
commute: always

"#]]
    );
    assert_eq!(share(&posix, ["unlink", "fstatx"]), "18 of 18");
}

#[test]
fn open_and_pipe_commute_if_they_return_any_descriptor() {
    let posix = alternatives::posix_plus();
    assert_eq!(share(&posix, ["open", "open"]), "585 of 718");
    assert_eq!(share(&posix, ["open_anyfd", "open_anyfd"]), "208 of 226");
    assert_data_eq!(
        shown(&posix, &["pipe", "pipe"]),
        str![[r#"
commute: b is in the other process
differ: b is not in the other process: a sees lowest unused fd of proc0 in a, b, 3rd lowest unused fd of proc0 in b, a

"#]]
    );
    assert_eq!(share(&posix, ["pipe", "pipe"]), "1 of 2");
    assert_data_eq!(
        shown(&posix, &["pipe_anyfd", "pipe_anyfd"]),
        str![[r#"
commute: always

"#]]
    );
    assert_eq!(share(&posix, ["pipe_anyfd", "pipe_anyfd"]), "2 of 2");
}

#[test]
fn a_delayed_unmap_commutes_with_accesses() {
    let posix = alternatives::posix_plus();
    assert_data_eq!(
        shown(&posix, &["munmap", "memread"]),
        str![[r#"
commute: a.va ≠ b.va
commute: b is in the other process
commute: proc0.memory has no a.va
differ: proc0.memory has a.va and b is not in the other process and a.va = b.va: b sees SIGSEGV in a, b, proc0.memory[a.va].datum in b, a
differ: proc0.memory has a.va and b is not in the other process and a.va = b.va: b sees SIGSEGV in a, b, SIGBUS in b, a
differ: proc0.memory has a.va and b is not in the other process and a.va = b.va: b sees SIGSEGV in a, b, inodes[proc0.memory[a.va].inode][proc0.memory[a.va].off] in b, a

"#]]
    );
    assert_eq!(share(&posix, ["munmap", "memread"]), "25 of 28");
    assert_data_eq!(
        shown(&posix, &["munmap_delayed", "memread"]),
        str![[r#"
commute: always

"#]]
    );
    assert_eq!(share(&posix, ["munmap_delayed", "memread"]), "20 of 20");
    assert_eq!(share(&posix, ["munmap", "memwrite"]), "33 of 36");
    assert_data_eq!(
        shown(&posix, &["munmap_delayed", "memwrite"]),
        str![[r#"
commute: always

"#]]
    );
    assert_data_eq!(
        shown(&posix, &["munmap_wait", "memread"]),
        str![[r#"
commute: a.va ≠ b.va
commute: b is in the other process
commute: proc0.leaving has no a.va
commute: proc0.memory has no a.va
differ: proc0.memory has a.va and proc0.leaving has a.va and b is not in the other process and a.va = b.va: b sees SIGSEGV in a, b, proc0.memory[a.va].datum in b, a
differ: proc0.memory has a.va and proc0.leaving has a.va and b is not in the other process and a.va = b.va: b sees SIGSEGV in a, b, SIGBUS in b, a
differ: proc0.memory has a.va and proc0.leaving has a.va and b is not in the other process and a.va = b.va: b sees SIGSEGV in a, b, inodes[proc0.memory[a.va].inode][proc0.memory[a.va].off] in b, a

"#]]
    );
    assert_data_eq!(
        shown(&posix, &["mmap", "munmap_wait"]),
        str![[r#"
commute: always

"#]]
    );
}

#[test]
fn a_pair_of_calls_in_both_posix_interfaces_commutes_equally_often_in_each() {
    let (posix, more) = (posix(), alternatives::posix_plus());
    for names in [["open", "open"], ["link", "unlink"], ["pipe", "open"], ["memread", "memwrite"]] {
        assert_eq!(share(&posix, names), share(&more, names), "{names:?}");
    }
}
