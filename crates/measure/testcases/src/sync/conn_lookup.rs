//! FreeBSD's lookup of connections, as in 11 and as in 12.
//!
//! Each task looks up connections of its own, as where a network card sends the packets of a connection
//! to one core: so what tasks share is the table alone, and not the locks of connections.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::OnceLock;

use knee_baselines::conn_table::{ConnTable, EpochTable, FourTuple, LockedTable};
use knee_run::area::Padded;
use knee_run::{Outcome, Task, TaskError, Testcase};

use super::shared::shared;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "conn_lookup_rwlock1",
        description: "finds its own connection under a read lock of the table, and locks it",
        ..shared(conn_lookup_rwlock1)
    },
    Testcase {
        name: "conn_lookup_epoch1",
        description: "finds its own connection inside an epoch section, and locks it",
        ..shared(conn_lookup_epoch1)
    },
];

fn conn_lookup_rwlock1(task: &Task<'_>) -> Outcome {
    static TABLE: Padded<OnceLock<LockedTable<u64>>> = Padded(OnceLock::new());
    look_up(task, TABLE.0.get_or_init(|| LockedTable::with_buckets(buckets(task))))
}

fn conn_lookup_epoch1(task: &Task<'_>) -> Outcome {
    static TABLE: Padded<OnceLock<EpochTable<u64>>> = Padded(OnceLock::new());
    look_up(task, TABLE.0.get_or_init(|| EpochTable::with_buckets(buckets(task))))
}

/// Connections of each task; they fit into the first cache of a core.
const CONNECTIONS: usize = 64;

fn buckets(task: &Task<'_>) -> usize {
    task.tasks * CONNECTIONS
}

fn look_up(task: &Task<'_>, table: &impl ConnTable<u64>) -> Outcome {
    let local = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443);
    let client = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + task.nr as u32);
    let ids: [FourTuple; CONNECTIONS] = std::array::from_fn(|number| FourTuple {
        local,
        foreign: SocketAddrV4::new(client, 1024 + number as u16),
    });
    for id in ids {
        let inserted = table.insert(id, 0);
        inserted.map_err(|_| TaskError::found("a new connection is in the table already"))?;
    }
    let mut number = 0;
    task.repeat(|| {
        number = (number + 1) % CONNECTIONS;
        let found = table.lookup(&ids[number], |packets| *packets += 1);
        found.ok_or_else(|| TaskError::found("an open connection is not in the table"))
    })
}
